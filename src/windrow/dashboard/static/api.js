// What the page asks of its server. The token goes in a header, never in an address.
const KEPT = "windrow-token";

export const token = () => sessionStorage.getItem(KEPT);
export const keep = (given) => sessionStorage.setItem(KEPT, given);
export const forget = () => sessionStorage.removeItem(KEPT);

export class Refused extends Error {}

export async function ask(path, { body, given = token() } = {}) {
  const headers = given ? { Authorization: `Bearer ${given}` } : {};
  const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const answer = await fetch(path, { ...sent, headers, signal: AbortSignal.timeout(20000) });
  const told = await answer.json().catch(() => ({ problem: `the server answered ${answer.status}` }));
  if (answer.status === 401) throw new Refused(told.problem);
  if (!answer.ok) throw new Error(told.problem ?? `the server answered ${answer.status}`);
  return told;
}
