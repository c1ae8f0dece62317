import t from 'tap'
import { reaches, receiptOf, startPaid, stateOf } from './helpers/paid.ts'
import { until } from './helpers/rawHttp.ts'
import { sellerOf } from './helpers/sellerOf.ts'

const plugins = [
  { use: 'x402' },
  { use: 'replay-guard', with: { maxBodyBytes: 100 } },
  { use: 'upstream', with: { maxRequestBytes: 1_000 } },
  { use: 'purchase-record' },
]
const right = { method: 'POST', body: '{"send":"mail"}' }
const chunked = (bytes: number) => ({
  method: 'POST',
  body: new Blob(['x'.repeat(bytes)]).stream(),
  duplex: 'half' as const,
})

for (const settle of ['after', 'before'] as const) {
  t.test(
    `a repeat with a body over a limit leaves the first call's sale alone, settled ${settle}`,
    async (t) => {
      const { gateway, settler, call, transports } = await startPaid(t, { plugins })
      const requested = Promise.withResolvers<void>()
      const goOn = Promise.withResolvers<void>()
      const seller = await sellerOf(t, async (_req, res) => {
        requested.resolve()
        await goOn.promise
        res.writeHead(200, { 'content-type': 'application/json' }).end('{"run":1}')
      })
      const link = await gateway.addLink({ slug: 'slow', url: seller.url, price: '0.10', settle })
      const leaving = new AbortController()
      const first = t.rejects(call(link.url, { ...right, signal: leaving.signal }))
      await requested.promise
      leaving.abort()
      await first
      await until(() => transports[0]!.hasLeft)
      const oversized = async (when: string) => {
        const large = await call(link.url, { method: 'POST', body: 'x'.repeat(1_001) })
        t.match(large, { status: 413, body: { error: { code: 'payload_too_large' } } }, when)
        // What is forwarded without being compared is another call.
        for (const init of [{ method: 'POST', body: 'x'.repeat(101) }, chunked(101), chunked(1_001)])
          t.match(
            await call(link.url, init),
            { status: 409, body: { error: { code: 'payment_already_used' } } },
            when,
          )
      }
      await oversized('while the seller works')
      goOn.resolve()
      await reaches(gateway, 'settled')
      await until(() => gateway.gateway.calls.counts().underWay === 0)
      await oversized('while the answer is held')
      t.equal(await stateOf(gateway), 'settled')
      t.match(await call(link.url, right), { status: 200, body: { data: { run: 1 } } })
      await reaches(gateway, 'delivered')
      t.equal(seller.calls, 1)
      t.strictSame(settler.transfers, ['n'])
    },
  )

  t.test(
    `a body that turns out too large on its way says whether it was charged, settled ${settle}`,
    async (t) => {
      const { gateway, settler, call } = await startPaid(t, { plugins })
      const seller = await sellerOf(t, (req, res) => {
        req
          .on('error', () => {})
          .resume()
          .on('end', () => res.end('{}'))
      })
      const link = await gateway.addLink({ slug: 'slow', url: seller.url, price: '0.10', settle })
      const stated = await call(link.url, { method: 'POST', body: 'x'.repeat(1_001) })
      t.equal(stated.status, 413)
      t.equal(await stateOf(gateway), undefined, 'a stated length is refused before the claim')
      const { status, body, headers } = await call(link.url, chunked(200_000))
      t.match({ status, body }, { status: 413, body: { error: { code: 'payload_too_large' } } })
      const isCharged = settle === 'before'
      t.equal(await stateOf(gateway), isCharged ? 'refund_due' : 'rejected')
      t.equal(settler.transfers.length, isCharged ? 1 : 0)
      t.equal(receiptOf(headers).success, isCharged)
      if (!isCharged) return
      t.match(body, { error: { message: /You were charged/ }, purchaseId: /./ })
    },
  )
}
