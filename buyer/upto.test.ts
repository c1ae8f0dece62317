import t from 'tap'
import { mnemonicToAccount } from 'viem/accounts'
import { createPaymentFiles } from '../cli/pay/paymentFiles.ts'
import { reportAsText } from '../cli/pay/printReport.ts'
import { settleCall } from '../core/evm/permit2.ts'
import { startEvmWorld } from '../test/helpers/buyer/evmWorld.ts'
import { type Answer, deliver, offer, type Received } from '../test/helpers/buyer/seller.ts'
import type { PayOptions } from './payOptions.ts'
import { resumePayment } from './resumePayment.ts'

const world = await startEvmWorld(t)
const { chain } = world
const facilitator = mnemonicToAccount(chain.mnemonic).address
await chain.allowPermit2(world.buyer)

/** Charges a payment by Permit2 as the facilitator that it names. @returns the transaction */
async function charge({ payment }: Received, amountAtomic: bigint): Promise<string> {
  const { signature, permit2Authorization: permit } = payment!['payload'] as {
    signature: string
    permit2Authorization: Record<string, string> & {
      permitted: Record<string, string>
      witness: Record<string, string>
    }
  }
  const call = settleCall(
    {
      token: permit.permitted['token']!,
      value: permit.permitted['amount']!,
      nonce: permit['nonce']!,
      validBefore: permit['deadline']!,
      from: permit['from']!,
      to: permit.witness['to']!,
      facilitator: permit.witness['facilitator'] ?? null,
      validAfter: permit.witness['validAfter']!,
      signature,
    },
    amountAtomic,
  )
  return await chain.send({ from: facilitator, ...call })
}

const entry = {
  scheme: 'upto',
  amount: '100000',
  extra: { name: 'USDC', version: '2', decimals: 6, facilitatorAddress: facilitator },
}

/** A seller that offers at most 0.10 USDC, and does this with the payment. */
const selling =
  (withPayment: Answer, terms: object = entry): Answer =>
  (request, response, seller) =>
    request.payment === null
      ? offer(response, world.offerFor(seller.url, terms))
      : withPayment(request, response, seller)

/** Charges one amount and names another, with a transaction if something was charged. */
const stating =
  (charged: bigint, amount: string | undefined): Answer =>
  async (request, response) => {
    const transaction = charged === 0n ? '' : await charge(request, charged)
    deliver(response, world.receiptOf(transaction, { amount }))
  }

const pay = (withPayment: Answer, options: Partial<PayOptions> = {}, terms: object = entry) =>
  world.pay(selling(withPayment, terms), options)

t.test('the report has the most that was signed, and what the chain shows as charged', async (t) => {
  for (const amount of ['40000', undefined]) {
    const run = await pay(stating(40_000n, amount))
    t.match(
      run.report,
      {
        outcome: 'paid',
        isVerified: true,
        charged: 'yes',
        chargedAmount: '0.04',
        payment: { scheme: 'upto', amount: '0.10', usd: '0.10' },
      },
      run.report.message,
    )
    t.equal(run.spent, 40_000n)
    t.equal(run.signatures, 1)
    t.match(run.steps[0], /Price: at most 0\.10 USDC/)
    t.match(reportAsText(run.report), /paid +0\.04 USDC of at most 0\.10 USDC \(0\.10 USD\)/)
  }
})

t.test('all of it may be charged, and exact by Permit2 is charged in full', async (t) => {
  t.match(await pay(stating(100_000n, '100000')), { report: { outcome: 'paid' }, spent: 100_000n })
  const exact = { ...entry, scheme: 'exact', extra: { ...entry.extra, assetTransferMethod: 'permit2' } }
  const run = await pay(stating(100_000n, '100000'), {}, exact)
  t.match(run, { report: { outcome: 'paid', chargedAmount: '0.10', isVerified: true }, spent: 100_000n })
  t.match(await pay(stating(100_000n, '40000'), {}, exact), {
    report: { outcome: 'unverified', message: /names another amount/, charged: 'yes' },
  })
})

t.test('a seller that charges nothing delivers, and may still use the payment until its end', async (t) => {
  const run = await pay(stating(0n, '0'))
  t.match(run.report, {
    outcome: 'paid',
    isVerified: true,
    charged: 'not_yet',
    chargedAmount: '0.00',
    transaction: null,
    message: /charged nothing so far. It can use the payment until 20/,
    stateFile: null,
  })
  t.equal(run.spent, 0n)
})

t.test('a receipt that the chain contradicts is not verified', async (t) => {
  const lies: [name: string, charged: bigint, amount: string, message: RegExp][] = [
    [
      'less than was charged',
      40_000n,
      '100',
      /shows a charge of 40000 atomic units, but the seller names 100/,
    ],
    ['more than was charged', 40_000n, '90000', /charge of 40000/],
    ['more than was signed', 40_000n, '100001', /names another amount/],
    ['no number', 40_000n, '4e4', /names another amount/],
    ['a negative number', 40_000n, '-1', /names another amount/],
    ['something, without a transaction', 0n, '40000', /not a transaction hash/],
  ]
  for (const [name, charged, amount, message] of lies) {
    const run = await pay(stating(charged, amount), { chainWaitMs: 1_000 })
    t.match(run.report, { outcome: 'unverified', isVerified: false, message }, name)
    t.equal(run.report.charged, charged === 0n ? 'not_yet' : 'yes', name)
    t.equal(run.report.chargedAmount, charged === 0n ? null : '0.04', name)
  }
  const free = await pay(async (request, response) => {
    await charge(request, 40_000n)
    deliver(response, world.receiptOf('', { amount: '0' }))
  })
  t.match(free.report, {
    outcome: 'unverified',
    charged: 'yes',
    message: /says that it charged nothing, but the payment was used/,
  })
  const another = await pay(stating(10_000n, '10000'))
  const reused = await pay((_, response) =>
    deliver(response, world.receiptOf(another.report.transaction!, { amount: '10000' })),
  )
  t.match(reused.report, { outcome: 'unverified', message: /does not contain this payment/ })
})

t.test('--max limits the most that is signed', async (t) => {
  const run = await pay(stating(1n, '1'), { maxUsd: '0.09' })
  t.match(run.report, { outcome: 'above_cap', message: /price of at most 0\.10 USD is above the cap/ })
  t.equal(run.signatures, 0)
})

t.test('a wallet that has not allowed Permit2 is told how, and another entry is paid', async (t) => {
  await chain.allowPermit2(world.buyer, 99_999n)
  const run = await pay(stating(1n, '1'))
  t.match(run.report, { outcome: 'refused', charged: 'no' })
  t.match(run.report.message, /may move 0.099999 USDC .* needs 0.10\..* cast send 0x.*approve/)
  t.equal(run.signatures, 0)
  const [plain] = world.offerFor('')['accepts'] as object[]
  const both = await world.pay((request, response, seller) => {
    if (request.payment !== null) return world.honest(request, response, seller)
    const accepts = [{ ...plain, ...entry }, plain]
    offer(response, world.offerFor(seller.url, {}, { accepts }))
  })
  t.match(both, { report: { outcome: 'paid', payment: { scheme: 'exact' } }, spent: 10_000n })
  await chain.allowPermit2(world.buyer)
  const late = await pay((_, response) => response.writeHead(412).end('{}'))
  t.match(late.report, { outcome: 'rejected', charged: 'not_yet', message: /approve/ })
})

t.test('a run that broke off presents the same payment again', async (t) => {
  const payments = createPaymentFiles(t.testdir())
  let isBroken = true
  const run = await pay(
    (request, response, seller) =>
      isBroken ? response.writeHead(503).end() : stating(70_000n, '70000')(request, response, seller),
    { payments, chainWaitMs: 500 },
  )
  t.match(run.report, { outcome: 'unknown', charged: 'not_yet' })
  isBroken = false
  const options = { payments, rpcUrl: chain.rpcUrl, timeoutMs: 10_000 }
  const report = await resumePayment(run.report.stateFile!, options)
  t.match(report, { outcome: 'paid', isVerified: true, chargedAmount: '0.07', stateFile: null })
  t.equal(new Set(run.seller.paid().map(({ headers }) => headers['payment-signature'])).size, 1)

  const lost = await pay(
    async (request, response) => {
      if (!isBroken) await charge(request, 20_000n)
      isBroken = true
      response.writeHead(503).end()
    },
    { payments, chainWaitMs: 2_000 },
  )
  t.match(lost.report, { outcome: 'bad_response', charged: 'yes', chargedAmount: '0.02', isVerified: true })
})
