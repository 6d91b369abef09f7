// Before the page is drawn, so that it does not flash: the theme chosen in this browser, or the system's.
(() => {
  const chosen = localStorage.getItem("windrow-theme");
  const system = matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
  document.documentElement.dataset.theme = chosen === "light" || chosen === "dark" ? chosen : system;
})();
