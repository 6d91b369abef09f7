// Charts that follow the time: the last minutes, drawn by uPlot in the theme's colours.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const HEIGHT = 170;

export class Chart {
  // series: {name, colour (a custom property), show(value)}; axis(value) writes the ticks.
  constructor(place, legend, series, axis) {
    Object.assign(this, { place, legend, series, axis, plot: null, span: 600, data: [[], ...series.map(() => [])] });
    this.chips = series.map((each) => {
      const chip = document.createElement("span");
      chip.className = `chip ${each.colour.slice(2)}`;
      legend.append(chip);
      return chip;
    });
    new ResizeObserver(() => this.plot?.setSize({ width: this.place.clientWidth, height: HEIGHT })).observe(place);
  }

  redraw() {
    this.plot?.destroy();
    this.plot = null;
    this.draw();
  }

  set(data, now) {
    this.data = data;
    this.now = now;
    this.draw();
  }

  draw() {
    if (!this.plot) this.make();
    const now = this.now ?? Date.now() / 1000;
    this.plot.setData(this.data, false);
    this.plot.batch(() => {
      this.plot.setScale("x", { min: now - this.span, max: now });
      this.plot.setScale("y", this.extent(now - this.span));
    });
    this.say(this.data[0].length - 1);
  }

  extent(from) {
    let most = 0;
    for (const values of this.data.slice(1)) {
      values.forEach((value, place) => {
        if (value > most && this.data[0][place] >= from) most = value;
      });
    }
    return { min: 0, max: most ? most * 1.15 : 1 };
  }

  say(place) {
    this.series.forEach((each, index) => {
      const value = this.data[index + 1][place];
      const text = `${each.name} ${value === undefined || value === null ? "–" : each.show(value)}`;
      if (this.chips[index].textContent !== text) this.chips[index].textContent = text;
    });
  }

  make() {
    const [ink, grid] = [colour("--quiet"), colour("--line")];
    const common = { stroke: ink, font: "11px system-ui, sans-serif", ticks: { show: false } };
    const lines = this.series.map((each) => ({
      stroke: colour(each.colour),
      fill: each.fill ? `${colour(each.colour)}26` : undefined,
      width: 1.75,
      points: { show: false },
      spanGaps: false,
    }));
    this.plot = new uPlot(
      {
        width: this.place.clientWidth,
        height: HEIGHT,
        padding: [8, 8, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
        scales: { x: { time: true, auto: false }, y: { auto: false } },
        series: [{}, ...lines],
        axes: [
          { ...common, grid: { show: false }, space: 70, values: "{HH}:{mm}:{ss}", size: 28 },
          { ...common, grid: { stroke: grid, width: 1 }, size: 58, space: 34, values: (_, ticks) => ticks.map(this.axis) },
        ],
        hooks: { setCursor: [(plot) => this.say(plot.cursor.idx ?? this.data[0].length - 1)] },
      },
      this.data,
      this.place,
    );
  }
}
