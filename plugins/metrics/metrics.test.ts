import perfHooks from 'node:perf_hooks'
import t from 'tap'
import { createMetrics } from '../../adapters/metrics/metrics.ts'
import { startGateway } from '../../test/helpers/gateway.ts'
import { callAndGo, shortPlugins, startPaid } from '../../test/helpers/paid.ts'
import { startSeller } from '../../test/helpers/sellers.ts'

async function start(options: object, kind: Parameters<typeof startSeller>[1] = 'hello') {
  const metrics = createMetrics().metrics
  const plugins = [{ use: 'upstream' }, { use: 'metrics', with: options }]
  const seller = await startSeller(t, kind)
  const gateway = await startGateway(t, { plugins, adapt: (ports) => ({ ...ports, metrics }) })
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  return { gateway, link, plugins, text: async () => metrics.source!.text() }
}

// First: it is measured once for everything that this process starts.
t.test('what the process itself does is measured from the first look at it on', async (t) => {
  const { monitorEventLoopDelay } = perfHooks
  let begun = 0
  perfHooks.monitorEventLoopDelay = (options) => {
    begun++
    return monitorEventLoopDelay(options)
  }
  t.teardown(() => {
    perfHooks.monitorEventLoopDelay = monitorEventLoopDelay
  })
  const { text } = await start({ processMetrics: true })
  t.equal(begun, 0, 'nobody has asked')
  const [, minS] = /^nodejs_eventloop_lag_min_seconds (\S+)$/m.exec(await text())!
  t.ok(Number(minS) < 60, `the least delay of the loop was ${minS} s`)
  await text()
  t.equal(begun, 1)
})

t.test('calls are counted by status and code, with their duration', async (t) => {
  const { link, text } = await start({ processMetrics: false })
  for (let i = 0; i < 3; i++) await (await fetch(link.url)).text()
  const before = await text()
  t.match(before, /^tollgate_calls_total\{paid="no",status="200",code=""\} 3$/m)
  t.match(before, /^tollgate_call_duration_seconds_count\{paid="no",outcome="free"\} 3$/m)
  t.match(before, /^tollgate_call_duration_seconds_bucket\{paid="no",outcome="free",le="\+Inf"\} 3$/m)
  t.match(before, /^tollgate_seller_duration_seconds_count\{paid="no",outcome="answered"\} 3$/m)
  t.notMatch(before, /process_cpu/)
})

t.test('failed calls carry their code', async (t) => {
  const { link, text } = await start({ processMetrics: false }, 'reset')
  await (await fetch(link.url)).text()
  t.match(await text(), /^tollgate_calls_total\{paid="no",status="502",code="upstream_error"\} 1$/m)
})

t.test('a free call whose caller hangs up while the seller works is no failure', async (t) => {
  const metrics = createMetrics().metrics
  const plugins = [{ use: 'metrics', with: { processMetrics: false } }, ...shortPlugins]
  const paid = await startPaid(t, { plugins, adapt: (ports) => ({ ...ports, metrics }) })
  await callAndGo(t, paid, '0')
  const text = await metrics.source!.text()
  t.match(text, /^tollgate_calls_total\{paid="no",status="0",code=""\} 1$/m)
  t.notMatch(text, /status="5/)
})

t.test('a reload keeps the counts, and a refused one leaves the export as it is', async (t) => {
  const { gateway, link, plugins, text } = await start({ processMetrics: true, perLink: true })
  await (await fetch(link.url)).text()
  await (await gateway.gateway.swap(await gateway.build(plugins))).retired
  await (await fetch(link.url)).text()
  t.match(await text(), /^tollgate_calls_total\{paid="no",link="demo\/free",status="200",code=""\} 2$/m)
  t.match(await text(), /^process_cpu_seconds_total /m)
  const before = await text()
  await gateway.build([...plugins, { use: 'metrics', with: { processMetrics: false } }])
  t.match(
    await text(),
    /^process_cpu_seconds_total /m,
    'one that was built and never went live changes nothing',
  )
  t.ok(before)
})
