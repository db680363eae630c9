// The data of a report: pieces that are loaded when a page needs them, and the address, which holds a view's state.
"use strict";

const arrived = new Map();

// Every script in data/ is one call of this function.
function piece(name, packed) { arrived.get(name)?.(packed); }

const loading = new Map();
function load(name, source = `data/${name}.js`) {
  if (!loading.has(name)) {
    const here = document.getElementById(`piece-${name}`);
    loading.set(name, here ? unpack(here.textContent) : new Promise((resolve, reject) => {
      arrived.set(name, (packed) => resolve(unpack(packed)));
      const script = document.createElement("script");
      script.src = source;
      script.onerror = () => reject(new Error(`${source} is missing. Write the report again: parity report`));
      document.head.append(script);
    }));
  }
  return loading.get(name);
}

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return JSON.parse(await new Response(stream).text());
}

// The part of the address after # says what a page shows, so that a view can be sent to someone. In a report of one
// file it also says which page is shown.
const shownPage = document.documentElement.dataset.page;
const address = {
  read: () => new URLSearchParams(location.hash.slice(1)),
  get: (key) => address.read().get(key) ?? "",
  set(key, value) {
    const all = address.read();
    if (value) all.set(key, value); else all.delete(key);
    if (shownPage) all.set("page", shownPage);
    const text = all.toString();
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  },
  to(page, values) {
    const given = Object.entries(values).filter(([, value]) => value !== "");
    return shownPage ? `#${new URLSearchParams([["page", page], ...given])}` : `${page}#${new URLSearchParams(given)}`;
  },
};

// An element with attributes and children. Texts become text nodes and never markup.
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false && child !== ""));
  if (tag === "th" && attributes?.scope === "row") breakAtParts(element);
  return element;
}

// Where a name is too long for its column, it continues in the next line behind a dot, an underscore or a bracket.
function breakAtParts(element) {
  for (const child of [...element.childNodes]) {
    if (child.nodeType !== Node.TEXT_NODE) { breakAtParts(child); continue; }
    const parts = child.data.split(/(?<=[._:,/-])(?=\w)|(?=\[)/);
    if (parts.length > 1) child.replaceWith(...parts.flatMap((part, at) => at ? [document.createElement("wbr"), part] : [part]));
  }
}

const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const linkTo = (url) => /^https?:\/\//.test(url) ? h("a", { href: url, rel: "noreferrer" }, url) : url;
