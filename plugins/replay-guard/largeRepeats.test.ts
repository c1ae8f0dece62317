import t, { type Test } from 'tap'
import { createMemoryCounters } from '../../adapters/memory/counters.ts'
import type { PaymentRecord } from '../../core/domain/payment.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { GatewayPorts } from '../../core/plugin/ports.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { startGateway } from '../../test/helpers/gateway.ts'
import { openSocket, until } from '../../test/helpers/rawHttp.ts'
import { sellerOf } from '../../test/helpers/sellerOf.ts'
import { createScriptedSettler, scriptedPayment } from '../../test/helpers/settler.ts'
import { LargeRepeats } from './repeat.ts'

/** Three of them are within what a payment gets again in a minute. */
const LARGE_BYTES = 20 * 1_048_576
const large = Buffer.alloc(LARGE_BYTES, 'x')

const headersOf = (payment: string) => ({ 'payment-signature': scriptedPayment(payment, '100000') })

async function withSeller(t: Test, adapt = (ports: GatewayPorts) => ports) {
  const seller = await sellerOf(t, (_req, res) => void res.end(large))
  const upstream = { use: 'upstream', with: { maxResponseBytes: LARGE_BYTES } }
  const own = await startGateway(t, {
    settlers: [createScriptedSettler()],
    plugins: [{ use: 'x402' }, { use: 'replay-guard' }, upstream, { use: 'purchase-record' }],
    adapt,
  })
  const link = await own.addLink({ slug: 'large', url: seller.url, price: '0.10' })
  const call = async (payment: string) => {
    const response = await fetch(link.url, { headers: headersOf(payment) })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }
  return { ...own, link, seller, call }
}

t.test('a large answer is sent again a few times a minute, and then later', async (t) => {
  const { seller, call } = await withSeller(t)
  t.equal((await call('one')).status, 200)
  for (let i = 0; i < 3; i++) {
    const repeat = await call('one')
    t.match([repeat.status, repeat.text.length], [200, LARGE_BYTES])
  }
  const both = await Promise.all([call('one'), call('one')])
  for (const refused of both) {
    t.equal(refused.status, 429)
    const seconds = Number(refused.headers.get('retry-after'))
    t.ok(seconds > 0 && seconds <= 60, `${seconds}`)
    t.match(JSON.parse(refused.text), {
      error: { code: 'rate_limited', retryable: true, message: /You were charged once\. Repeat/ },
      purchaseId: String,
    })
  }
  t.equal((await call('two')).status, 200, 'what is bought now is no repeat')
  t.equal((await call('two')).status, 200, 'another payment has a share of its own')
  t.equal(seller.calls, 2)
})

t.test('one caller gets so much of all its payments, and small answers as often as it asks', async (t) => {
  const repeats = new LargeRepeats(createMemoryCounters(), systemClock)
  const transport = { onClose: (listener: () => void) => setImmediate(listener) }
  const admit = (key: string, clientIp: string) =>
    repeats.admit({ clientIp, transport } as unknown as Exchange, { key, purchaseId: 'p' } as PaymentRecord)
  for (let i = 0; i < 1_000; i++) await admit('small', '192.0.2.1')
  for (let i = 0; i < 13; i++) t.ok(repeats.note({ key: `p-${i}` } as PaymentRecord, LARGE_BYTES))
  for (let i = 0; i < 12; i++) await admit(`p-${i}`, '192.0.2.1')
  await t.rejects(admit('p-12', '192.0.2.1'), { code: 'rate_limited', retryable: true })
  await admit('p-12', '192.0.2.2')
})

t.test('a repeat that hangs up while it waits for memory waits no longer', async (t) => {
  const waits: Promise<boolean>[] = []
  const { link, port, call } = await withSeller(t, (ports) => ({
    ...ports,
    responseBuffer: {
      totalBytes: 0,
      heldBytes: 0,
      open: (sharer) => {
        const held = ports.responseBuffer.open(sharer)
        const isRepeat = sharer === 'repeats'
        const { promise, resolve } = Promise.withResolvers<boolean>()
        return {
          bytes: 0,
          grow: (bytes) => held.grow(bytes),
          growWithin(bytes, timeoutMs) {
            if (!isRepeat) return held.growWithin(bytes, timeoutMs)
            waits.push(promise)
            return promise
          },
          leaves: (cutOff) => held.leaves(cutOff),
          release() {
            resolve(false)
            held.release()
          },
        }
      },
    },
  }))
  await call('one')
  const socket = await openSocket(t, port)
  const { 'payment-signature': signature } = headersOf('one')
  socket.write(`GET ${link.path} HTTP/1.1\r\nHost: g\r\nPayment-Signature: ${signature}\r\n\r\n`)
  await until(() => waits.length === 1)
  socket.destroy()
  t.equal(await waits[0], false, 'released, and not when its time is over')
})
