import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { encodeHeader } from '../core/x402/header.ts'
import { PRICE, startEvmWorld } from '../test/helpers/buyer/evmWorld.ts'
import { type Answer, deliver, offer } from '../test/helpers/buyer/seller.ts'

const world = await startEvmWorld(t)
const NOWHERE = `0x${'ab'.repeat(32)}`

/** Offers honestly; the test decides what happens to the payment. */
const then =
  (withPayment: Answer): Answer =>
  (request, response, seller) =>
    request.payment === null
      ? offer(response, world.offerFor(seller.url))
      : withPayment(request, response, seller)

/** Receipts for a payment that was never settled. */
const claims: Record<string, [receipt: unknown, problem: RegExp]> = {
  'a transaction that does not exist': [world.receiptOf(NOWHERE), /chain does not have the transaction/],
  'no transaction': [world.receiptOf(''), /not a transaction hash/],
  'a transaction that is no hash': [world.receiptOf('settled!'), /not a transaction hash/],
  'an endless transaction': [world.receiptOf('0x'.padEnd(9_000, 'a')), /names no transaction/],
  'no receipt at all': [undefined, /chain does not have the payment/],
}

for (const [name, [receipt, problem]] of Object.entries(claims)) {
  t.test(`a success with ${name} is not believed`, async (t) => {
    const run = await world.pay(
      then((_, response) => deliver(response, receipt)),
      { chainWaitMs: 1_000 },
    )
    t.match(run.report, { outcome: 'unverified', isVerified: false, charged: 'not_yet' })
    t.match(run.report.message, problem)
    t.equal(run.spent, 0n)
    t.ok(run.report.stateFile, 'the payment is kept: the seller can still use it')
  })
}

t.test("an earlier purchase's transaction is not taken for this one", async (t) => {
  const earlier = await world.pay(world.honest)
  t.equal(earlier.report.outcome, 'paid')
  const run = await world.pay(
    then((_, response) => deliver(response, world.receiptOf(earlier.report.transaction!))),
  )
  t.match(run.report, { outcome: 'unverified', charged: 'not_yet' })
  t.match(run.report.message, /does not contain this payment/)
})

t.test('a reverted transaction is not taken for a settlement', async (t) => {
  const run = await world.pay(
    then(async (request, response) => {
      await world.chain.setUsdcPaused(true)
      const [from] = await world.chain.rpc<[string]>('eth_accounts')
      const to = world.chain.usdcAddress
      // A call that reverts. It is mined all the same, because its gas is set explicitly.
      const hash = await world.chain.send({
        from,
        to,
        data: `0xa9059cbb${request.payment ? '0'.repeat(128) : ''}`,
        gas: '0x186a0',
      })
      await world.chain.setUsdcPaused(false)
      deliver(response, world.receiptOf(hash))
    }),
  )
  t.match(run.report, { outcome: 'unverified', message: /reverted/ })
})

t.test('a plain transfer of ours to the seller is not taken for this payment', async (t) => {
  const run = await world.pay(
    then(async (_, response) => {
      await world.chain.rpc('anvil_impersonateAccount', world.buyer)
      await world.chain.fundEth(world.buyer, 10n ** 18n)
      const word = (hex: string) => hex.padStart(64, '0')
      const data = `0xa9059cbb${word(world.payTo.slice(2))}${word(BigInt(PRICE).toString(16))}`
      const hash = await world.chain.send({
        from: world.buyer,
        to: world.chain.usdcAddress,
        data,
      })
      deliver(response, world.receiptOf(hash))
    }),
  )
  t.match(run.report, { outcome: 'unverified', charged: 'not_yet' })
  t.match(run.report.message, /does not contain this payment/)
})

/** Wrong receipts of a payment that was settled. */
const statements: Record<string, [change: object, problem: RegExp]> = {
  'another network': [{ network: 'eip155:8453' }, /another network/],
  'another payer': [{ payer: world.payTo }, /another payer/],
  'another amount': [{ amount: '1' }, /another amount/],
  'another transaction': [{ transaction: NOWHERE }, /chain does not have the transaction/],
  'success as a word': [{ success: 'true' }, /whether it succeeded/],
  'a failed settlement': [{ success: false, errorReason: 'insufficient_funds' }, /did not settle/],
}

for (const [name, [change, problem]] of Object.entries(statements)) {
  t.test(`a receipt that names ${name} is not believed, and the charge is reported`, async (t) => {
    const run = await world.pay(
      then(async (request, response) =>
        deliver(response, world.receiptOf(await world.settle(request), change)),
      ),
      { chainWaitMs: 1_000 },
    )
    t.match(run.report, { outcome: 'unverified', isVerified: false, charged: 'yes' })
    t.match(run.report.message, problem)
    t.equal(run.spent, BigInt(PRICE))
  })
}

t.test('a receipt that can not be read, or that came in two versions, is not believed', async (t) => {
  for (const header of [['!!!'], [Buffer.from('{"success":true,"success":true}').toString('base64')]]) {
    const run = await world.pay(
      then(async (request, response) => {
        await world.settle(request)
        response.writeHead(200, { 'payment-response': header }).end('{}')
      }),
    )
    t.match(run.report, { outcome: 'unverified', charged: 'yes', message: /not readable/ })
  }
  const run = await world.pay(
    then(async (request, response) => {
      const receipt = world.receiptOf(await world.settle(request))
      const twice = [receipt, { ...receipt, amount: '1' }].map(encodeHeader)
      response.writeHead(200, ['PAYMENT-RESPONSE', twice[0]!, 'Payment-Response', twice[1]!]).end('{}')
    }),
  )
  t.match(run.report, { outcome: 'unverified', message: /PAYMENT-RESPONSE header came twice/ })
})

t.test('a settled payment without a receipt is found on the chain', async (t) => {
  let settled = ''
  const run = await world.pay(
    then(async (request, response) => {
      settled = await world.settle(request)
      deliver(response, undefined)
    }),
  )
  t.match(run.report, { outcome: 'paid', isVerified: true, transaction: settled })
})

t.test('a node that does not answer leaves the receipt unverified', async (t) => {
  const dead = createServer()
  await new Promise<void>((resolve) => dead.listen(0, '127.0.0.1', resolve))
  const rpcUrl = `http://127.0.0.1:${(dead.address() as AddressInfo).port}`
  await new Promise((resolve) => dead.close(resolve))
  const run = await world.pay(world.honest, { rpcUrl, chainWaitMs: 1_000 })
  t.match(run.report, { outcome: 'unverified', isVerified: false, charged: 'unknown' })
  t.match(run.report.message, /No node responded to/)
  t.equal(run.spent, BigInt(PRICE), 'though it was paid')
  t.ok(run.report.stateFile)
})
