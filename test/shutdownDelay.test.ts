import t, { type Test } from 'tap'
import { plainGateways } from './helpers/plainGateway.ts'
import { sellerOf } from './helpers/sellerOf.ts'

async function startOne(t: Test, options: object) {
  const { start, addLink, newPort } = await plainGateways(t, options)
  const gateway = await start(await newPort())
  const seller = await sellerOf(t, (_req, res) => void res.end('{}'))
  const path = await addLink(gateway.url, { url: seller.url, slug: 'free' })
  const statusOf = async (path: string) => (await fetch(gateway.url + path)).status
  return { ...gateway, path, statusOf }
}

/** Waits for what `/readyz` says to everybody who asks the public port. */
async function untilStopping(url: string): Promise<{ status: number; text: string }> {
  for (;;) {
    const response = await fetch(`${url}/readyz`)
    if (response.status !== 200) return { status: response.status, text: await response.text() }
  }
}

for (const workers of [1, 2]) {
  t.test(
    `${workers} process(es): after the first signal only /readyz changes, and the second one ends the delay`,
    async (t) => {
      const { child, url, path, statusOf } = await startOne(t, { workers, shutdownDelayMs: 600_000 })
      t.equal(await statusOf('/readyz'), 200)
      child.signal('SIGTERM')
      const stopping = await untilStopping(url)
      t.equal(stopping.status, 503)
      t.match(JSON.parse(stopping.text).error, { code: 'NOT_READY', message: /is stopping/ })
      // Each fetch may open a connection of its own: those that come now are accepted, too.
      for (let i = 0; i < 5; i++) t.equal(await statusOf(path), 200)
      t.equal(await statusOf('/healthz'), 200)
      t.equal(await statusOf('/docs'), 200, 'the control plane is served as well')
      child.signal('SIGTERM')
      t.match(await child.exited, {
        code: 0,
        stderr: /stop requested.*stopping, after running calls finish/s,
      })
    },
  )
}

t.test('the delay ends by itself, and the gateway stops', async (t) => {
  const { child } = await startOne(t, { shutdownDelayMs: 300 })
  child.signal('SIGINT')
  t.match(await child.exited, { code: 0, stderr: /stop requested.*stopping, after running calls finish/s })
})

t.test(
  'without a delay the first signal begins the drain, and a signal during the drain ends the process at once',
  async (t) => {
    const { start, addLink, newPort } = await plainGateways(t, { drainTimeoutMs: 60_000 })
    const { child, url } = await start(await newPort())
    const called = Promise.withResolvers<void>()
    const seller = await sellerOf(t, () => called.resolve())
    const path = await addLink(url, { url: seller.url, slug: 'slow' })
    const response = fetch(url + path).catch((error: Error) => error)
    await called.promise
    child.signal('SIGTERM')
    await child.waitForOutput('stopping, after running calls finish')
    child.signal('SIGTERM')
    const { code, stderr } = await child.exited
    t.equal(code, 1)
    t.notMatch(stderr, /stop requested/)
    await response
  },
)
