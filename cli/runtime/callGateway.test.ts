import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { callGateway } from './callGateway.ts'

/** A gateway that responds with 429 this many times. */
async function busy(t: Test, times: number, retryAfter: string) {
  let requestCount = 0
  const server = createServer((req, res) => {
    req.resume()
    const isBusy = requestCount++ < times
    res.writeHead(isBusy ? 429 : 200, {
      'content-type': 'application/json',
      ...(isBusy && { 'retry-after': retryAfter }),
    })
    const error = { code: 'RATE_LIMIT_EXCEEDED', message: 'Too many requests.' }
    res.end(
      JSON.stringify(
        isBusy ? { success: false, error } : { success: true, data: { requests: requestCount } },
      ),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    ask: (body?: object) => callGateway<{ requests: number }>(url, '/api/v1/links', body, 'tg_live_x'),
    requests: () => requestCount,
  }
}

t.test('who reads waits for the next minute, and goes on', async (t) => {
  const { ask } = await busy(t, 1, '1')
  t.strictSame(await ask(), { requests: 2 })
})

t.test('what is sent is not sent again, and nobody waits for an hour', async (t) => {
  const sent = await busy(t, 1, '1')
  await t.rejects(sent.ask({}), /RATE_LIMIT_EXCEEDED: Too many requests/)
  t.equal(sent.requests(), 1)
  const hour = await busy(t, 1, '3000')
  await t.rejects(hour.ask(), /RATE_LIMIT_EXCEEDED/)
  t.equal(hour.requests(), 1)
})
