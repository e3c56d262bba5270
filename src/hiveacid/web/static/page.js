// Comfort that a page works without: questions before actions, local times, refreshing.
"use strict";

for (const form of document.querySelectorAll("form[data-question]")) {
  form.addEventListener("submit", (event) => {
    if (!window.confirm(form.dataset.question)) event.preventDefault();
  });
}

// A select or check box of a filter takes effect at once.
for (const field of document.querySelectorAll(".filters select")) {
  field.addEventListener("change", () => field.form.requestSubmit());
}

// Times are UTC; the local one is shown on pointing at it.
for (const cell of document.querySelectorAll("td.time")) {
  const moment = new Date(`${cell.firstChild.textContent.trim().replace(" ", "T")}Z`);
  if (!Number.isNaN(moment.getTime())) cell.title = moment.toLocaleString();
}

const refresh = document.getElementById("refresh");
if (refresh) {
  const key = "hiveacid-refresh";
  refresh.checked = sessionStorage.getItem(key) === "on";
  refresh.addEventListener("change", () => sessionStorage.setItem(key, refresh.checked ? "on" : "off"));
  window.setInterval(() => {
    const busy = document.activeElement && document.activeElement.matches("input:not([type=checkbox]), select");
    if (refresh.checked && !document.hidden && !busy) window.location.reload();
  }, Number(refresh.dataset.seconds) * 1000);
}
