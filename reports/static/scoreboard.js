// A scoreboard: copying commands, and filtering operators.
"use strict";

document.addEventListener("click", async (event) => {
  const button = event.target.closest(".copy");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy";
  }
});

const filter = document.getElementById("filter");
if (filter) {
  const differing = document.getElementById("differing");
  const rows = [...document.querySelectorAll("#operators tbody tr")];
  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    let number = 0;
    for (const row of rows) {
      const name = row.querySelector("th").textContent.toLowerCase();
      row.hidden = !name.includes(wanted) || (differing.checked && !row.dataset.differs);
      if (!row.hidden) number++;
    }
    document.getElementById("shown").textContent = number === 1 ? "1 row" : `${number} rows`;
  };
  filter.addEventListener("input", show);
  differing.addEventListener("change", show);
}
