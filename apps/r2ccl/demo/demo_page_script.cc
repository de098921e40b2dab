// The script of the demo's page: draws what page_model() made. It sets data-ready on the body when everything is there.

#include "apps/r2ccl/demo/demo_page.h"

namespace r2ccl::apps {

const char* const kPageScript = R"js(
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const byId = id => document.getElementById(id);

function add(parent, name, attributes = {}, text) {
  const svg = parent.namespaceURI === 'http://www.w3.org/2000/svg' || name === 'svg';
  const node = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return parent.appendChild(node);
}

// Three digits are enough for anybody.
function time(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 0.001) return 'at once';
  if (ms < 1) return (ms * 1000).toPrecision(3) + ' µs';
  return ms < 1000 ? +ms.toPrecision(3) + ' ms' : +(ms / 1000).toPrecision(3) + ' s';
}
const after = (later, earlier) => later === null || earlier === null ? '–' : time(later - earlier);
function count(n) {
  return n >= 1e9 ? (n / 1e9).toFixed(2) + ' billion' : n >= 1e6 ? (n / 1e6).toFixed(1) + ' million' : String(n);
}
const nicName = fault => `server ${fault.server} NIC ${fault.nic}`;
const end = data.seconds;
const seconds = ms => ms === null ? null : ms / 1000;

// ---- words ----

function summary() {
  const mended = data.faults.filter(fault => fault.mended).length;
  const right = data.wrong === 0 ? 'every element right' : count(data.wrong) + ' elements wrong';
  byId('verdict').textContent = `${right} · ${mended} of ${data.faults.length} faults repaired`;
  byId('verdict').classList.add(data.good ? 'good' : 'bad');
  const what = `${data.where}, one rank each, AllReduces of ${data.collective_bytes} one after the other. `;
  byId('where').textContent = what + (data.lab ? 'Real interfaces in network namespaces, real faults.' :
    'Loopback NICs, faults injected inside the library.');
  byId('scale').textContent = `Each band is one NIC, from nothing to its rate of ${data.rate_mb_s} MB/s; ` +
    'the line on top is the time of each AllReduce.';
  const lost = data.faults.reduce((sum, fault) => sum + fault.lost_ms, 0);
  const stall = Math.max(0, ...data.faults.map(fault => fault.stall_ms));
  const tiles = [
    [count(data.collectives), `AllReduces in ${end.toFixed(1)} s`], [count(data.checked), 'elements checked'],
    [count(data.wrong), 'elements wrong'], [time(stall), 'longest stall'],
    [time(lost), `lost to repairs, ${(lost / end / 10).toFixed(1)} %`], [data.resent, 'sent again']];
  for (const [figure, words] of tiles) {
    const tile = add(byId('tiles'), 'div', {class: 'tile'});
    add(tile, 'b', {}, figure);
    add(tile, 'span', {}, words);
  }
}

function faultCards() {
  for (const fault of data.faults) {
    const card = add(byId('faults'), 'article', {class: 'card fault'});
    add(card, 'h2', {}, fault.title);
    const lasting = fault.healed_ms === null ? 'for good' : `for ${time(fault.healed_ms - fault.at_ms)}`;
    add(card, 'p', {class: 'hint'}, nicName(fault) +
      (fault.at_ms === null ? ', did not begin' : `, at ${seconds(fault.at_ms).toFixed(2)} s, ${lasting}`));
    const steps = add(card, 'div', {class: 'steps'});
    for (const [words, figure] of [
      ['noticed after', after(fault.noticed_ms, fault.at_ms)],
      ['repaired after', after(fault.repaired_ms, fault.at_ms)],
      ['healed, back in', after(fault.returned_ms, fault.healed_ms)]]) {
      const step = add(steps, 'div');
      add(step, 'span', {}, words);
      add(step, 'b', {}, figure);
    }
    const rounds = [fault.before_ms, fault.during_ms, fault.after_ms].map(ms => ms === null ? '–' : ms.toFixed(0));
    const share = [fault.share_before, fault.share_during].map(part => (part * 100).toFixed(0) + ' %').join(' → ');
    const list = add(card, 'dl');
    for (const [words, figure] of [
      ['longest stall', fault.stall_ms > 0 ? time(fault.stall_ms) : 'under 5 ms'], ['time lost', time(fault.lost_ms)],
      ['sent again', fault.resent], ['AllReduce before, during, after', rounds.join(' → ') + ' ms'],
      ['share of the traffic', share]]) {
      add(list, 'dt', {}, words);
      add(list, 'dd', {}, figure);
    }
  }
}

function eventTable() {
  const body = byId('events').tBodies[0];
  for (const [at, kind, text] of data.events) {
    const row = add(body, 'tr', {class: kind});
    add(row, 'td', {}, at.toFixed(3));
    const cell = add(row, 'td');
    add(cell, 'i');
    cell.append(text);
  }
}

// ---- the chart ----

const width = 1120, left = 150, right = 14, bandHeight = data.nics > 8 ? 20 : 30, bandGap = 5, groupGap = 17;
const roundTop = 44, roundHeight = 92, bandsTop = roundTop + roundHeight + 40;
const x = at => left + Math.max(0, Math.min(at, end)) / end * (width - left - right);
const groupHeight = data.nics * (bandHeight + bandGap) - bandGap + groupGap;
const bandTop = (server, nic) => bandsTop + server * groupHeight + nic * (bandHeight + bandGap);
const bottom = bandTop(data.servers - 1, data.nics - 1) + bandHeight;

function mark(parent, kind, at, y, title) {
  const shapes = {
    noticed: 'M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0', repaired: 'M0,-6L6,0L0,6L-6,0Z', back: 'M0,-6L6,5L-6,5Z',
    plan: 'M-4,-4h8v8h-8Z',
  };
  const node = add(parent, 'path', {class: kind, d: shapes[kind], transform: `translate(${x(at)},${y})`});
  add(node, 'title', {}, title);
}

function shade(chart) {
  for (const fault of data.faults.filter(one => one.at_ms !== null)) {
    const begin = x(seconds(fault.at_ms)), healed = x(seconds(fault.healed_ms) ?? end);
    const back = Math.max(healed, x(seconds(fault.returned_ms) ?? 0)), y = bandTop(fault.server, fault.nic);
    const height = bottom - roundTop + 12;
    add(chart, 'rect', {class: 'span', x: begin, y: roundTop - 6, width: healed - begin, height});
    add(chart, 'text', {class: 'fault-name', x: begin, y: roundTop - 27}, fault.title);
    add(chart, 'text', {x: begin, y: roundTop - 12}, nicName(fault));
    add(chart, 'rect', {class: 'broken', x: begin, y, width: Math.max(1, healed - begin), height: bandHeight});
    add(chart, 'rect', {class: 'returning', x: healed, y, width: back - healed, height: bandHeight});
  }
}

function axes(chart) {
  const step = [1, 2, 5, 10, 20, 60, 300, 600].find(one => end / one <= 14) ?? 1200;
  for (let at = 0; at <= end; at += step) {
    add(chart, 'line', {class: 'grid', x1: x(at), x2: x(at), y1: roundTop, y2: bottom + 5});
    add(chart, 'text', {x: x(at), y: bottom + 20, 'text-anchor': 'middle'}, at === 0 ? '0 s' : String(at));
  }
}

function roundMax() {
  const highest = Math.max(1, ...data.rounds.map(round => round[1])) * 1.05;
  const nice = [5, 10, 20, 50, 100, 150, 200, 250, 300, 400, 500, 750, 1000, 2000, 5000, 10000, 30000];
  return nice.find(one => one >= highest) ?? highest;
}

function roundLine(chart) {
  const top = roundMax();
  const y = ms => roundTop + roundHeight * (1 - ms / top);
  add(chart, 'text', {class: 'name', x: 0, y: roundTop + roundHeight / 2 + 4}, 'AllReduce');
  for (const ms of [0, top]) {
    add(chart, 'line', {class: 'grid', x1: left, x2: width - right, y1: y(ms), y2: y(ms)});
    add(chart, 'text', {x: left - 8, y: y(ms) + 4, 'text-anchor': 'end'}, ms === 0 ? '0' : `${ms} ms`);
  }
  if (data.usual_ms !== null) {
    add(chart, 'line', {class: 'usual', x1: left, x2: width - right, y1: y(data.usual_ms), y2: y(data.usual_ms)});
    const label = {x: left - 8, y: Math.min(y(data.usual_ms), y(0) - 12) + 4, 'text-anchor': 'end'};
    add(chart, 'text', label, `usually ${data.usual_ms.toFixed(0)} ms`);
  }
  const point = (at, ms) => `${x(at).toFixed(1)},${y(ms).toFixed(1)}`;
  const points = data.rounds.filter(round => round[0] <= end)
    .flatMap(([at, ms]) => [point(at - ms / 1000, ms), point(at, ms)]);
  add(chart, 'polyline', {class: 'round', points: points.join(' ')});
  let before = null;
  for (const [at, , algorithm, version] of data.rounds) {
    const plan = `${algorithm}, health map ${version}`;
    if (before !== null && plan !== before && at <= end) mark(chart, 'plan', at, roundTop + roundHeight, plan);
    before = plan;
  }
}

function bands(chart) {
  for (let server = 0; server < data.servers; ++server) {
    const middle = bandTop(server, 0) + (groupHeight - groupGap) / 2;
    add(chart, 'text', {class: 'name', x: 0, y: middle + 4}, `server ${server}`);
    for (let nic = 0; nic < data.nics; ++nic) {
      const base = bandTop(server, nic) + bandHeight;
      const figures = data.nic_mb_s[server][nic];
      const points = figures.map((rate, i) => `${x(i * data.step_ms / 1000).toFixed(1)},` +
        (base - Math.min(1, rate / data.rate_mb_s) * bandHeight).toFixed(1));
      add(chart, 'text', {x: left - 8, y: base - bandHeight / 2 + 4, 'text-anchor': 'end'}, `NIC ${nic}`);
      add(chart, 'path', {class: 'area', d: `M${x(0)},${base}L${points.join('L')}L${x(end)},${base}Z`});
      add(chart, 'line', {class: 'base', x1: x(0), x2: x(end), y1: base, y2: base});
      add(chart, 'polyline', {class: 'nic', points: points.join(' ')});
    }
  }
}

function marks(chart) {
  for (const fault of data.faults.filter(one => one.at_ms !== null)) {
    const y = bandTop(fault.server, fault.nic), begin = x(seconds(fault.at_ms));
    add(chart, 'line', {class: 'edge', x1: begin, x2: begin, y1: y - 2, y2: y + bandHeight + 2});
    const moments = [['noticed', fault.noticed_ms, fault.at_ms, 3], ['repaired', fault.repaired_ms, fault.at_ms, 16],
      ['back', fault.returned_ms, fault.healed_ms, bandHeight / 2]];
    for (const [kind, at, since, down] of moments) {
      if (at !== null) mark(chart, kind, seconds(at), y + down, `${nicName(fault)} ${kind} after ${after(at, since)}`);
    }
  }
}

function legend() {
  const entries = [
    ['broken', 'M0,1h14v12h-14Z', 'NIC broken'], ['returning', 'M0,1h14v12h-14Z', 'healed, not yet in use'],
    ['noticed', 'M2,7a5,5 0 1,0 10,0a5,5 0 1,0 -10,0', 'noticed'],
    ['repaired', 'M7,1L13,7L7,13L1,7Z', 'repaired: what was missing is sent again'],
    ['back', 'M7,1L13,12L1,12Z', 'back in use'], ['plan', 'M3,3h8v8h-8Z', 'a new plan for the NICs there are']];
  for (const [kind, d, words] of entries) {
    const entry = add(byId('legend'), 'span');
    add(add(entry, 'svg', {viewBox: '0 0 14 14'}), 'path', {class: kind, d});
    entry.append(words);
  }
}

// What there was at the moment under the pointer, of the server under it.
function follow(chart) {
  const line = add(chart, 'line', {class: 'cross', y1: roundTop, y2: bottom, visibility: 'hidden'});
  const tip = byId('tip');
  chart.addEventListener('pointermove', event => {
    const box = chart.getBoundingClientRect(), scale = width / box.width;
    const px = (event.clientX - box.left) * scale, py = (event.clientY - box.top) * scale;
    const at = (px - left) / (width - left - right) * end;
    if (at < 0 || at > end) return hide();
    const server = Math.max(0, Math.min(data.servers - 1, Math.floor((py - bandsTop) / groupHeight)));
    const step = Math.min(data.nic_mb_s[0][0].length - 1, Math.round(at * 1000 / data.step_ms));
    const round = data.rounds.find(one => one[0] >= at);
    const lines = [`${at.toFixed(2)} s`];
    if (round) lines.push(`AllReduce ${round[1].toFixed(0)} ms`, `${round[2]}, health map ${round[3]}`);
    lines.push('', `server ${server}`);
    const rate = figures => figures[step].toFixed(1).padStart(5);
    data.nic_mb_s[server].forEach((figures, nic) => lines.push(`NIC ${nic}  ${rate(figures)} MB/s`));
    tip.textContent = lines.join('\n');
    tip.style.display = 'block';
    tip.style.left = Math.min(event.clientX + 16, innerWidth - tip.offsetWidth - 8) + 'px';
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + 'px';
    line.setAttribute('x1', px);
    line.setAttribute('x2', px);
    line.setAttribute('visibility', 'visible');
  });
  const hide = () => {
    tip.style.display = 'none';
    line.setAttribute('visibility', 'hidden');
  };
  chart.addEventListener('pointerleave', hide);
}

const chart = byId('chart');
chart.setAttribute('viewBox', `0 0 ${width} ${bottom + 26}`);
summary();
shade(chart);
axes(chart);
roundLine(chart);
bands(chart);
marks(chart);
follow(chart);
legend();
faultCards();
eventTable();
document.body.dataset.ready = 'yes';
)js";

}  // namespace r2ccl::apps
