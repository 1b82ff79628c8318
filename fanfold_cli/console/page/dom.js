// Small helpers: elements, and numbers for people.
export const $ = (id) => document.getElementById(id);
export const make = (name, cls = "", text = undefined) => {
  const made = document.createElement(name);
  if (cls) made.className = cls;
  if (text !== undefined) made.textContent = text;
  return made;
};
export const svg = (name, attributes = {}, parent = undefined) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
};
export const set = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};
export const number = (value) => Math.round(value ?? 0).toLocaleString("en");
export const seconds = (value) => {
  if (value < 10) return `${Math.max(0, value).toFixed(1)} s`;
  const whole = Math.round(value);
  if (whole < 60) return `${whole} s`;
  return whole < 3600
    ? `${Math.floor(whole / 60)} min ${whole % 60} s`
    : `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
};
// UTC, like the ledger, AWS's logs and the API.
export const clock = (epoch) => new Date(epoch * 1000).toISOString().slice(11, 19);
// Seconds since a time of the bridge, which runs on the browser's machine.
export const age = (epoch) => Math.max(0, Math.round(Date.now() / 1000 - epoch));
export const ageText = (epoch) => seconds(age(epoch)).replace(".0 s", " s");
