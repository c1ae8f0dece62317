// The port for metrics and probes, and that what stands in deploy/ speaks of metrics that a running gateway has.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { newBuyer, present } from './helpers/buyers.ts'
import { startProduct } from './helpers/product.ts'

const files = resolve(import.meta.dirname, '../../deploy/helm/tollgate/files')
const rules = join(files, 'rules.yaml')
const product = await startProduct(t, { sections: { monitoring: { port: 0 } } })
const { chains, config, tollgate } = product
const monitoringUrl = tollgate.monitoringUrl!
const [evm] = chains.both
const url = await product.addLink('paid')
const free = await product.addLink('free', '0')
const buyer = await newBuyer(chains, evm)
const asked = await fetch(url)
const got = await fetch(free)
const paid = await present(url, await buyer.sign(url))
const metrics = await (await fetch(`${monitoringUrl}/metrics`)).text()

/** Labels of each metric that a running gateway has. */
const labels = new Map<string, Set<string>>()
for (const line of metrics.split('\n')) {
  const [, name, inner = ''] = /^([a-z_]\w*)(?:\{(.*)\})? /.exec(line) ?? []
  if (name === undefined) continue
  const known = labels.get(name) ?? new Set()
  for (const [, label] of inner.matchAll(/(\w+)="/g)) known.add(label!)
  labels.set(name, known)
}
// Only with `counters.use: redis`; cli/runtime/standingMetrics.test.ts has it.
labels.set('tollgate_redis_up', new Set())

t.test('the monitoring port answers metrics and probes, and the public port none of them', async (t) => {
  for (const path of ['/metrics', '/healthz', '/readyz']) {
    const forwarded = { headers: { 'x-forwarded-for': '203.0.113.7' } }
    t.equal((await fetch(monitoringUrl + path, forwarded)).status, 200, path)
    const outside = await fetch(config.url + path)
    t.equal(outside.status, 404, path)
    const { error } = (await outside.json()) as { error: { requestId: string } }
    t.equal(error.requestId, outside.headers.get('x-request-id'))
  }
  t.equal((await fetch(`${monitoringUrl}/api/v1/profile`)).status, 404, 'and nothing else is there')
})

t.test('the admin API answers through the gateway with the id that the caller gave', async (t) => {
  const response = await fetch(`${config.url}/nowhere`, { headers: { 'x-request-id': 'of-the-caller' } })
  t.equal(response.headers.get('x-request-id'), 'of-the-caller')
})

t.test('calls, sellers, settlements and what is still to be done are in /metrics', async (t) => {
  t.strictSame([asked.status, got.status, paid.status], [402, 200, 200])
  for (const line of [
    /^tollgate_call_duration_seconds_count\{paid="yes",outcome="402"\} \d+$/m,
    /^tollgate_call_duration_seconds_count\{paid="yes",outcome="paid"\} 1$/m,
    /^tollgate_call_duration_seconds_count\{paid="no",outcome="free"\} 1$/m,
    /^tollgate_seller_duration_seconds_count\{paid="yes",outcome="answered"\} 1$/m,
    /^tollgate_settlement_duration_seconds_count\{network="eip155:\d+",outcome="settled"\} 1$/m,
    /^tollgate_build_info\{version=".+",node="v.+"\} 1$/m,
    /^tollgate_payments_open\{state="pending"\} 0$/m,
    /^tollgate_refunds_due 0$/m,
    /^tollgate_webhook_deliveries_waiting 0$/m,
    /^tollgate_links_suspended 0$/m,
  ])
    t.match(metrics, line)
})

/** What an expression asks for that no running gateway has. */
function unknownIn(expression: string): string[] {
  const names = [...expression.matchAll(/\b((?:tollgate|process|nodejs)_\w+)(?:\{([^}]*)\})?/g)]
  if (names.length === 0) return [`no metric: ${expression}`]
  const has = (name: string, label: string) => labels.get(name)?.has(label) === true
  const selected = names.flatMap(([, name, inner = '']) =>
    [...inner.matchAll(/(\w+)\s*[=!]/g)]
      .filter(([, label]) => !has(name!, label!))
      .map(([label]) => `${name} ${label}`),
  )
  const grouped = [...expression.matchAll(/\bby \(([^)]*)\)/g)]
    .flatMap(([, list]) => list!.split(',').map((label) => label.trim()))
    .filter((label) => !names.some(([, name]) => has(name!, label)))
  return [...names.map(([, name]) => name!).filter((name) => !labels.has(name)), ...selected, ...grouped]
}

t.test('every metric and label of the alerts and of the dashboard exists', async (t) => {
  const alerts = parse(readFileSync(rules, 'utf8')).groups[0].rules as { alert: string; expr: string }[]
  const { panels } = JSON.parse(readFileSync(join(files, 'dashboard.json'), 'utf8')) as {
    panels: { title: string; targets: { expr: string; legendFormat: string }[] }[]
  }
  t.ok(alerts.length > 8)
  t.ok(panels.length > 8)
  for (const { alert, expr } of alerts) t.strictSame(unknownIn(expr), [], alert)
  for (const { title, targets } of panels)
    for (const { expr, legendFormat } of targets) {
      t.strictSame(unknownIn(expr), [], title)
      for (const [, label] of legendFormat.matchAll(/\{\{(\w+)\}\}/g))
        t.match(expr, new RegExp(`by \\(.*\\b${label}\\b`), title)
    }
  t.strictSame(unknownIn('sum by (nowhere) (tollgate_nothing{paid="yes"})'), [
    'tollgate_nothing',
    'tollgate_nothing paid=',
    'nowhere',
  ])
})

const isMissing = spawnSync('promtool', ['--version']).status !== 0
const skip = isMissing && process.env['CI'] !== 'true' ? { skip: 'promtool is not installed' } : {}

t.test('Prometheus understands the alerts, and what /metrics says', skip, async (t) => {
  const checked = spawnSync('promtool', ['check', 'rules', rules], { encoding: 'utf8' })
  t.equal(checked.status, 0, checked.stdout + checked.stderr)
  // Its advice on names is about process metrics of prom-client; what it can't read ends with status 1.
  const read = spawnSync('promtool', ['check', 'metrics'], { input: metrics, encoding: 'utf8' })
  t.not(read.status, 1, read.stderr)
  t.notMatch(read.stderr, /^tollgate_/m, 'and it has nothing to say about ours')
})
