import t from 'tap'
import { PRICE, startEvmWorld } from '../test/helpers/buyer/evmWorld.ts'
import { type Answer, deliver, offer, startSeller } from '../test/helpers/buyer/seller.ts'

const world = await startEvmWorld(t)

/** Offers honestly; the test decides what happens to the payment. */
const then =
  (withPayment: Answer): Answer =>
  (request, response, seller) =>
    request.payment === null
      ? offer(response, world.offerFor(seller.url))
      : withPayment(request, response, seller)

t.test('a second 402 after the payment gets no second signature', async (t) => {
  const run = await world.pay((_, response, { url }) => offer(response, world.offerFor(url)))
  t.match(run.report, { outcome: 'rejected', charged: 'not_yet', attempts: 1 })
  t.match(run.report.message, /not been charged so far\. The payment can be used until/)
  t.equal(run.signatures, 1)
  t.equal(run.spent, 0n)
  t.equal(run.seller.paid().length, 1)
})

t.test('a second 402 that names a higher price gets no second signature', async (t) => {
  const run = await world.pay((request, response, { url }) =>
    offer(response, world.offerFor(url, request.payment === null ? {} : { amount: '900000' })),
  )
  t.match(run.report, { outcome: 'rejected' })
  t.equal(run.signatures, 1)
})

for (const status of [302, 307]) {
  t.test(`a payment is not carried along a ${status}`, async (t) => {
    const thief = await startSeller(world.honest)
    t.teardown(() => thief.close())
    const run = await world.pay(
      then((_, response) => response.writeHead(status, { location: thief.url }).end()),
    )
    t.match(run.report, { outcome: 'rejected' })
    t.equal(thief.received.length, 0)
    t.equal(run.signatures, 1)
  })
}

t.test("the seller's reason for a failed settlement is told", async (t) => {
  const receipt = { success: false, transaction: '', network: world.chain.network, errorReason: 'nonce_used' }
  const run = await world.pay(
    then((_, response) =>
      response
        .writeHead(402, { 'payment-response': Buffer.from(JSON.stringify(receipt)).toString('base64') })
        .end('{}'),
    ),
  )
  t.match(run.report, { outcome: 'rejected', message: /responded with 402 \(nonce_used\)/ })
})

t.test('a seller that keeps the payment and answers 402 is found out by the chain', async (t) => {
  const run = await world.pay(
    then(async (request, response, { url }) => {
      await world.settle(request)
      offer(response, world.offerFor(url))
    }),
  )
  t.match(run.report, { outcome: 'bad_response', charged: 'yes' })
  t.match(run.report.message, /You were charged/)
  t.match(run.report.transaction, /^0x[0-9a-f]{64}$/)
  t.equal(run.spent, BigInt(PRICE))
})

t.test(
  'after an unknown outcome the same payment is sent again, byte for byte, until the answer comes',
  async (t) => {
    let transaction = ''
    const run = await world.pay(
      then(async (request, response, seller) => {
        const attempt = seller.paid().length
        if (attempt === 1) return response.socket!.destroy()
        if (attempt === 2) {
          transaction = await world.settle(request)
          return response.writeHead(503).end('{"error":{"code":"settlement_pending"}}')
        }
        if (attempt === 3) {
          response.writeHead(200, { 'content-length': '100' })
          return response.write('{', () => response.socket!.end())
        }
        deliver(response, world.receiptOf(transaction))
      }),
    )
    t.match(run.report, { outcome: 'paid', attempts: 4, isVerified: true })
    t.equal(run.signatures, 1)
    t.equal(run.spent, BigInt(PRICE))
    const headers = new Set(run.seller.paid().map((request) => request.headers['payment-signature']))
    t.equal(headers.size, 1)
  },
)

t.test('an endless 500 ends with an unknown outcome, one signature and a file to go on with', async (t) => {
  const run = await world.pay(
    then((_, response) => response.writeHead(500).end()),
    { chainWaitMs: 1_000 },
  )
  t.match(run.report, { outcome: 'unknown', charged: 'not_yet', attempts: 4 })
  t.ok(run.report.stateFile)
  t.equal(run.signatures, 1)
})

t.test('a failure after the settlement is reported as charged', async (t) => {
  const run = await world.pay(
    then(async (request, response, seller) => {
      if (seller.paid().length === 1) await world.settle(request)
      response.writeHead(502).end()
    }),
  )
  t.match(run.report, { outcome: 'bad_response', charged: 'yes' })
  t.ok(run.report.stateFile)
})

t.test('a failure that carries a true receipt is not repeated', async (t) => {
  const run = await world.pay(
    then(async (request, response) => {
      const receipt = world.receiptOf(await world.settle(request))
      const header = Buffer.from(JSON.stringify(receipt)).toString('base64')
      response.writeHead(502, { 'payment-response': header }).end()
    }),
  )
  t.match(run.report, { outcome: 'bad_response', charged: 'yes', attempts: 1 })
})

t.test('a Retry-After of a year does not outlast the deadline', async (t) => {
  const run = await world.pay(
    then((_, response) => response.writeHead(503, { 'retry-after': '31536000' }).end()),
    { timeoutMs: 3_000 },
  )
  t.match(run.report, { outcome: 'unknown', attempts: 1 })
})

t.test('an answer longer than the limit is cut off, and the purchase is reported as such', async (t) => {
  const run = await world.pay(
    then(async (request, response) =>
      deliver(response, world.receiptOf(await world.settle(request)), 'x'.repeat(500_000)),
    ),
    { maxBodyBytes: 1_000 },
  )
  t.match(run.report, { outcome: 'bad_response', isVerified: true, charged: 'yes' })
  t.equal(run.report.response?.body.length, 1_000)
  t.equal(run.report.response?.isComplete, false)
})

t.test('an answer that breaks off every time is reported as such', async (t) => {
  let transaction = ''
  const run = await world.pay(
    then(async (request, response, seller) => {
      if (seller.paid().length === 1) transaction = await world.settle(request)
      const receipt = Buffer.from(JSON.stringify(world.receiptOf(transaction))).toString('base64')
      response.writeHead(200, { 'payment-response': receipt, 'content-length': '100' })
      response.write('half', () => response.socket!.end())
    }),
  )
  t.match(run.report, { outcome: 'bad_response', isVerified: true, attempts: 4 })
  t.equal(run.signatures, 1)
})

t.test('a server that vanishes before the payment is sent gets nothing', async (t) => {
  const run = await world.pay(async (_, response, seller) => {
    offer(response, world.offerFor(seller.url))
    response.once('close', () => seller.close())
  })
  t.match(run.report, { outcome: 'failed', charged: 'no', stateFile: null })
  t.equal(run.seller.paid().length, 0)
})

t.test('an interrupt keeps the payment for later', async (t) => {
  const controller = new AbortController()
  const run = await world.pay(
    then(() => controller.abort()),
    { signal: controller.signal },
  )
  t.match(run.report, { outcome: 'unknown' })
  t.ok(run.report.stateFile)
})
