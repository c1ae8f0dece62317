import t from 'tap'
import { startGateway } from '../../test/helpers/gateway.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { sellerOf } from '../../test/helpers/sellerOf.ts'

t.test("a day's calls are counted, and those that failed by the seller's fault", async (t) => {
  let status = 200
  const { url } = await sellerOf(t, (req, res) => {
    req.resume()
    res.writeHead(status).end('{}')
  })
  const plugins = [{ use: 'health', with: { probe: false } }, { use: 'upstream' }]
  const { addLink, store } = await startGateway(t, { plugins })
  const link = await addLink({ slug: 'free', url, price: '0' })
  for (status of [200, 404, 500, 200, 503]) await (await fetch(link.url)).text()
  const counted = async () => (await store.stats.healthDays(link.id, 0)).days
  await until(async () => (await counted()).length > 0)
  t.match(await counted(), [{ calls: 5, failedCalls: 2, probes: 0, failedProbes: 0 }])
})
