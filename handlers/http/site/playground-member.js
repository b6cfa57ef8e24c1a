// A member: the timeline, balances over time, and what expires when.

import { html, nothing, svg } from "./lit-html.js";

const MAX_WIDTH = 640;
const HEIGHT = 180;
const LEFT = 56;
const BOTTOM = 24;

export const day = (moment) => new Date(moment).toLocaleDateString(undefined, { dateStyle: "medium" });
export const minute = (moment) => new Date(moment).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });

/** The balances after each movement, oldest first, by account: `{accountId: [{at, balance}]}`. */
export const balancesOverTime = (rows) => {
  const series = {};
  for (const { recordedAt, points } of [...rows].reverse()) {
    if (!points || points.balance === null || points.isPending) continue;
    (series[points.ledgerAccountId] ??= []).push({ at: Date.parse(recordedAt), balance: points.balance });
  }
  return series;
};

/** A step line of one series, as wide as the page, so that its texts keep their size on a phone. */
const balanceChart = (name, series) => {
  const width = Math.min(MAX_WIDTH, document.getElementById("playground").clientWidth);
  const from = series[0].at;
  const to = Math.max(series.at(-1).at, from + 1);
  const highest = Math.max(...series.map(({ balance }) => balance), 1);
  const x = (at) => LEFT + ((width - LEFT - 8) * (at - from)) / (to - from);
  const y = (balance) => 8 + (HEIGHT - BOTTOM - 8) * (1 - balance / highest);
  const steps = series.map(({ at, balance }, number) =>
    (number ? `H${x(at).toFixed(1)}V${y(balance).toFixed(1)}` : `M${x(at).toFixed(1)} ${y(balance).toFixed(1)}`));
  const last = series.at(-1).balance;
  return html`<figure><figcaption>${name}, now ${last}</figcaption>
    <svg viewBox="0 0 ${width} ${HEIGHT}" role="img" aria-label="${name} from ${day(from)} to ${day(to)}, now ${last}">
    ${svg`<path class="axis" d="M${LEFT} 8V${HEIGHT - BOTTOM}H${width - 8}"></path>
      <text x=${LEFT - 6} y="14" class="end">${highest}</text>
      <text x=${LEFT - 6} y=${HEIGHT - BOTTOM} class="end">0</text>
      <text x=${LEFT} y=${HEIGHT - 6}>${day(from)}</text>
      <text x=${width - 8} y=${HEIGHT - 6} class="end">${day(to)}</text>
      <path class="line" d=${`${steps.join("")}H${width - 8}`}></path>`}</svg></figure>`;
};

const lotsTable = ({ ledgerAccountName, lots }) => html`<h3>${ledgerAccountName}: what expires when</h3>
  <table><thead><tr><th scope="col">Expires</th><th scope="col">Available</th><th scope="col">On hold</th></tr></thead>
  <tbody>${lots.expiring.map((lot) => html`<tr><td>${lot.expiresAt ? day(lot.expiresAt) : "never"}</td>
    <td>${lot.available}</td><td>${lot.reserved}</td></tr>`)}</tbody></table>`;

const timelineRow = (row) => html`<tr><td><time datetime=${row.recordedAt}>
  ${minute(row.recordedAt)}</time></td><td>${row.kind}</td><td>${row.isReversed ? html`<del>${row.text}</del>` : row.text}</td></tr>`;

/** The newest days are on the right of a chart that is scrolled. */
const showNewestDays = ({ target }) => { target.parentElement.scrollLeft = target.width; };

/** The page of one member; `more` loads older rows. */
export const memberView = ({ member, rows, cursor, wallets, charts }, more) => {
  const names = Object.fromEntries(wallets.map((wallet) => [wallet.ledgerAccountId, wallet.ledgerAccountName]));
  const series = Object.entries(balancesOverTime(rows));
  const withLots = wallets.filter((wallet) => wallet.lots?.expiring.length);
  return html`<h2>${member.loyaltyMemberId}</h2>
    <p>${member.profile?.name ?? ""} ${member.profile?.lastName ?? ""} since ${day(member.createdAt)}${
      member.active ? "" : ", inactive"}</p>
    ${series.length ? html`<h3>Balances over time</h3>` : nothing}
    ${series.map(([accountId, points]) => balanceChart(names[accountId] ?? `Account ${accountId}`, points))}
    ${withLots.map(lotsTable)}
    <h3>Timeline</h3>
    <table class="timeline"><thead><tr><th scope="col">Recorded</th><th scope="col">Kind</th><th scope="col">What happened</th>
    </tr></thead><tbody>${rows.map(timelineRow)}</tbody></table>
    ${cursor ? html`<button type="button" @click=${more}>Older</button>` : nothing}
    ${charts.length ? html`<h2>The organization</h2>` : nothing}
    ${charts.map(({ title, source }) => html`<figure><figcaption>${title}</figcaption>
      <div class="chart" tabindex="0" role="group" aria-label=${title}>
      <img alt=${title} src=${source} @load=${showNewestDays}></div></figure>`)}`;
};
