import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { askGateway } from './askGateway.ts'

/** A gateway that has had too many requests, until it has said so as often as is told. */
async function busy(t: Test, times: number, retryAfter: string) {
  let asked = 0
  const server = createServer((req, res) => {
    req.resume()
    const isBusy = asked++ < times
    res.writeHead(isBusy ? 429 : 200, {
      'content-type': 'application/json',
      ...(isBusy && { 'retry-after': retryAfter }),
    })
    const error = { code: 'RATE_LIMIT_EXCEEDED', message: 'Too many requests.' }
    res.end(JSON.stringify(isBusy ? { success: false, error } : { success: true, data: { asked } }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    ask: (body?: object) => askGateway<{ asked: number }>(url, '/api/v1/links', body, 'tg_live_x'),
    asked: () => asked,
  }
}

t.test('who reads waits for the next minute, and goes on', async (t) => {
  const { ask } = await busy(t, 1, '1')
  t.strictSame(await ask(), { asked: 2 })
})

t.test('what is sent is not sent again, and nobody waits for an hour', async (t) => {
  const sent = await busy(t, 1, '1')
  await t.rejects(sent.ask({}), /RATE_LIMIT_EXCEEDED: Too many requests/)
  t.equal(sent.asked(), 1)
  const hour = await busy(t, 1, '3000')
  await t.rejects(hour.ask(), /RATE_LIMIT_EXCEEDED/)
  t.equal(hour.asked(), 1)
})
