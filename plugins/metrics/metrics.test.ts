import t from 'tap'
import type { MetricsSource } from '../../core/ports/metrics.ts'
import { startGateway } from '../../test/helpers/gateway.ts'
import { startSeller } from '../../test/helpers/sellers.ts'

async function start(options: object, kind: Parameters<typeof startSeller>[1] = 'hello') {
  let source: MetricsSource | undefined
  const metrics = {
    register(next: MetricsSource) {
      source = next
    },
    get source() {
      return source
    },
  }
  const plugins = [{ use: 'upstream' }, { use: 'metrics', with: options }]
  const seller = await startSeller(t, kind)
  const gateway = await startGateway(t, { plugins, adapt: (ports) => ({ ...ports, metrics }) })
  const link = await gateway.addLink({ slug: 'free', url: seller.url })
  return { gateway, link, plugins, text: async () => source!.text() }
}

t.test('calls are counted by status and code, with their duration', async (t) => {
  const { link, text } = await start({ processMetrics: false })
  for (let i = 0; i < 3; i++) await (await fetch(link.url)).text()
  const before = await text()
  t.match(before, /^tollgate_calls_total\{paid="no",status="200",code=""\} 3$/m)
  t.match(before, /^tollgate_call_duration_seconds_count\{paid="no"\} 3$/m)
  t.match(before, /^tollgate_call_duration_seconds_bucket\{paid="no",le="\+Inf"\} 3$/m)
  t.notMatch(before, /process_cpu/)
})

t.test('failed calls carry their code', async (t) => {
  const { link, text } = await start({ processMetrics: false }, 'reset')
  await (await fetch(link.url)).text()
  t.match(await text(), /^tollgate_calls_total\{paid="no",status="502",code="upstream_error"\} 1$/m)
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
