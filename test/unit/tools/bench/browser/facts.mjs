// SPDX-License-Identifier: Apache-2.0
// Runs inside the page: what a reader would see, as JSON in an element of its own.
const rectOf = (element) => {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  return { left, right, top, bottom };
};
const channel = (value) => {
  const share = value / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
};
const luminance = (color) => {
  const [red, green, blue] = color
    .match(/[\d.]+/g)
    .map(Number)
    .map(channel);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
/** WCAG 2: from 1 to 21. */
const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const isOver = (one, other) =>
  one.left < other.right - 1 &&
  other.left < one.right - 1 &&
  one.top < other.bottom - 1 &&
  other.top < one.bottom - 1;

const svg = document.querySelector('svg');
const frame = rectOf(svg);
const texts = [...svg.querySelectorAll('text')].map((element) => ({
  ...{ text: element.textContent, rect: rectOf(element) },
  color: getComputedStyle(element).fill,
}));
const back = getComputedStyle(svg.querySelector('.b-back')).fill;
const page = getComputedStyle(document.body).backgroundColor;
const cells = [...document.querySelectorAll('td, td span, td small, th, p, dd, dt, h1, h2')];
const marks = [...svg.querySelectorAll('.b-marker')];

const facts = {
  requests: performance.getEntriesByType('resource').length,
  plots: svg.querySelectorAll('[role=group]').length,
  marks: marks.length,
  rows: document.querySelectorAll('tbody tr').length,
  isScrolledSideways: document.documentElement.scrollWidth > window.innerWidth,
  outside: texts
    .filter(
      ({ rect }) =>
        rect.left < frame.left || rect.right > frame.right || rect.bottom > frame.bottom,
    )
    .map(({ text }) => text),
  overlapping: texts.flatMap(({ text, rect }, at) =>
    texts
      .slice(at + 1)
      .filter((other) => isOver(rect, other.rect))
      .map((other) => `${text} / ${other.text}`),
  ),
  isDark: luminance(page) < 0.5,
  pale: [
    ...texts.filter(({ color }) => contrast(color, back) < 4.5).map(({ text }) => text),
    ...cells
      .filter((element) => contrast(getComputedStyle(element).color, page) < 4.5)
      .map((element) => element.textContent),
    ...marks
      .filter((mark) => contrast(getComputedStyle(mark).fill, back) < 3)
      .map((mark) => mark.parentNode.textContent),
  ],
};
const element = document.createElement('pre');
element.id = 'facts';
element.textContent = btoa(JSON.stringify(facts));
document.body.append(element);
