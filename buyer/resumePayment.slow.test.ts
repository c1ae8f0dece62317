import { chmodSync, existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import t from 'tap'
import { createPaymentFiles } from '../cli/pay/paymentFiles.ts'
import { PRICE, startEvmWorld } from '../test/helpers/buyer/evmWorld.ts'
import { deliver, type Seller } from '../test/helpers/buyer/seller.ts'
import { resumePayment } from './resumePayment.ts'

const world = await startEvmWorld(t)
const payments = createPaymentFiles('/dev/null')
const options = { payments, rpcUrl: world.chain.rpcUrl, timeoutMs: 10_000, retryDelaysMs: [10] }

/** A run whose outcome stays open. `heal` makes the seller honest. */
async function openRun(): Promise<{ file: string; seller: Seller; heal: () => void }> {
  let isBroken = true
  const run = await world.pay(
    async (request, response, seller) => {
      if (request.payment !== null && isBroken) return response.writeHead(503).end()
      await world.honest(request, response, seller)
    },
    { chainWaitMs: 1_000, method: 'POST', body: Buffer.from('{"a":1}'), headers: ['X-Trace', '1'] },
  )
  const heal = () => {
    isBroken = false
  }
  return { file: run.report.stateFile!, seller: run.seller, heal }
}

t.test('a payment left open is sent again as it was, and nothing is signed', async (t) => {
  const { file, seller, heal } = await openRun()
  heal()
  const report = await resumePayment(file, options)
  t.match(report, { outcome: 'paid', isVerified: true, stateFile: null })
  const headers = new Set(seller.paid().map((request) => request.headers['payment-signature']))
  t.equal(headers.size, 1)
  const keys = new Set(seller.paid().map((request) => request.headers['idempotency-key']))
  t.strictSame(
    [...keys].map((key) => typeof key),
    ['string'],
    'whoever reads the payment on chain lacks it',
  )
  t.match(seller.received.at(-1), { method: 'POST', body: '{"a":1}', headers: { 'x-trace': '1' } })
  t.notOk(existsSync(file), 'there is nothing to resume any more')
})

t.test('a payment that is still open stays on disk', async (t) => {
  const { file } = await openRun()
  const report = await resumePayment(file, { ...options, chainWaitMs: 1_000 })
  t.match(report, { outcome: 'unknown', stateFile: file })
  t.ok(existsSync(file))
})

t.test('a payment that was settled meanwhile is recognised though the seller is gone', async (t) => {
  const { file, seller } = await openRun()
  await world.settle(seller.paid()[0]!)
  await seller.close()
  const report = await resumePayment(file, options)
  t.match(report, { outcome: 'bad_response', charged: 'yes', isVerified: true })
  t.equal(report.payment?.amount, '0.01')
})

t.test('a seller that settles only now and answers is believed by the chain alone', async (t) => {
  const before = await world.chain.balanceUsdc(world.payTo)
  const { file, heal } = await openRun()
  heal()
  t.match(await resumePayment(file, options), { outcome: 'paid' })
  t.equal((await world.chain.balanceUsdc(world.payTo)) - before, BigInt(PRICE))
})

t.test('only its owner can read the file, and the key is not in it', async (t) => {
  const { file } = await openRun()
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.equal(statSync(dirname(file)).mode & 0o777, 0o700)
  t.notOk(readFileSync(file, 'utf8').includes(world.privateKey.slice(2)))
})

t.test('a file that others can read, a link, and another file are refused', async (t) => {
  const { file, seller } = await openRun()
  const calls = seller.received.length
  chmodSync(file, 0o644)
  await t.rejects(resumePayment(file, options), { name: 'UsageError', message: /chmod 600/ })
  chmodSync(file, 0o600)
  symlinkSync(file, `${file}.link`)
  await t.rejects(resumePayment(`${file}.link`, options), { name: 'UsageError' })
  for (const text of ['', '{}', '[]', 'null', readFileSync(file, 'utf8').replace('"amount"', '"amount2"')]) {
    const other = `${file}.${text.length}`
    writeFileSync(other, text, { mode: 0o600 })
    await t.rejects(resumePayment(other, options), { name: 'UsageError' })
  }
  t.equal(seller.received.length, calls)
})

t.test('a resumed payment that the seller claims without a settlement is not believed', async (t) => {
  const run = await world.pay(
    (request, response, seller) =>
      request.payment === null
        ? world.honest(request, response, seller)
        : deliver(response, world.receiptOf(`0x${'cd'.repeat(32)}`)),
    { chainWaitMs: 1_000 },
  )
  const report = await resumePayment(run.report.stateFile!, { ...options, chainWaitMs: 1_000 })
  t.match(report, { outcome: 'unverified', charged: 'not_yet' })
})
