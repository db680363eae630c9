// A report in one file: shows the page that the address names, and runs the scripts of that page.
"use strict";

(() => {
  const pages = JSON.parse(document.getElementById("pages").textContent);
  const wanted = new URLSearchParams(location.hash.slice(1)).get("page");
  const name = pages[wanted] ? wanted : "index.html";
  const page = pages[name];
  document.documentElement.dataset.page = name;
  const main = document.getElementById("main");
  main.innerHTML = page.main;
  document.title = new DOMParser().parseFromString(page.title, "text/html").documentElement.textContent;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === name) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  // A link to a page becomes the address of that page in this file.
  addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    const [to, values = ""] = (link?.getAttribute("href") ?? "").split("#");
    if (!pages[to]) return;
    event.preventDefault();
    location.hash = `page=${to}&${values}`;
  });
  // What a page itself changes in its address makes no event.
  addEventListener("hashchange", () => { if (location.hash.includes("page=")) location.reload(); });
  for (const script of page.scripts) {
    const element = document.createElement("script");
    element.textContent = JSON.parse(document.getElementById(`script-${script}`).textContent);
    document.body.append(element);
  }
})();
