import t from 'tap'
import { MAX_SERIES } from '../../core/ports/metrics.ts'
import { createMetrics } from './metrics.ts'

function start() {
  const own = createMetrics()
  own.metrics.register({ contentType: 'text/plain', text: async () => 'up 1\n' })
  return { ...own, text: () => own.metrics.source!.text() }
}

t.test('what plugins define is exported behind what the metrics plugin says', async (t) => {
  const { metrics, settled, text } = start()
  t.equal(createMetrics().metrics.source, undefined, 'without that plugin there is nothing')
  const lookups = metrics.counter({ name: 'my_lookups_total', help: 'Lookups.', labels: ['outcome'] })
  lookups.inc({ outcome: 'hit' })
  lookups.inc({ outcome: 'hit' }, 2)
  metrics.gauge({ name: 'my_entries', help: 'Entries.' }).set(7)
  const seconds = metrics.histogram({ name: 'my_lookup_seconds', help: 'Time.', buckets: [0.1, 1] })
  seconds.observe(0.5)
  settled('eip155:8453', 'settled', 1_500)
  const result = await text()
  for (const line of [
    'up 1',
    'my_lookups_total{outcome="hit"} 3',
    'my_entries 7',
    'my_lookup_seconds_bucket{le="0.1"} 0',
    'my_lookup_seconds_bucket{le="1"} 1',
    'tollgate_settlement_duration_seconds_sum{network="eip155:8453",outcome="settled"} 1.5',
  ])
    t.ok(result.split('\n').includes(line), line)
})

t.test(
  'the same definition is the same metric, so that a reload keeps its counts; another one is refused',
  async (t) => {
    const { metrics, text } = start()
    const definition = { name: 'my_total', help: 'Mine.', labels: ['kind'] }
    metrics.counter(definition).inc({ kind: 'a' })
    metrics.counter({ ...definition }).inc({ kind: 'a' })
    t.match(await text(), 'my_total{kind="a"} 2')
    t.throws(() => metrics.counter({ ...definition, labels: ['sort'] }), /my_total .* restart the gateway/)
    t.throws(() => metrics.gauge(definition), /my_total/)
  },
)

t.test('a metric has no more series than there may be, however many values come', async (t) => {
  const { metrics, text } = start()
  const calls = metrics.counter({ name: 'my_total', help: 'Mine.', labels: ['who'] })
  for (let i = 0; i < MAX_SERIES + 50; i++) calls.inc({ who: `caller-${i}` })
  const lines = (await text()).split('\n').filter((line) => line.startsWith('my_total{'))
  t.equal(lines.length, MAX_SERIES + 1)
  t.ok(lines.includes('my_total{who="other"} 50'))
})

t.test(
  'labels that were not declared are left out, missing ones are empty, and no call fails for them',
  async (t) => {
    const { metrics, text } = start()
    metrics.counter({ name: 'my_total', help: 'Mine.', labels: ['kind'] }).inc({ sort: 'x' })
    t.match(await text(), 'my_total{kind=""} 1')
  },
)

t.test('a definition that Prometheus or the service would not take is refused by its name', async (t) => {
  const { metrics } = start()
  for (const name of ['My_total', 'my-total', '', '9_total', 'tollgate_calls_total', 'process_cpu'])
    t.throws(() => metrics.counter({ name, help: 'Mine.' }), /Expected (the name of )?a metric/, name)
  t.throws(() => metrics.counter({ name: 'my_total', help: ' ' }), /help/)
  for (const label of ['le', 'process', 'a-b', ''])
    t.throws(() => metrics.counter({ name: 'my_total', help: 'Mine.', labels: [label] }), /labels/, label)
})
