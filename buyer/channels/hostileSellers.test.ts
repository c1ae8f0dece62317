import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { voucherTypedData } from '../../core/x402/channelTerms.ts'
import { startEvmWorld } from '../../test/helpers/buyer/evmWorld.ts'
import { type Answer, deliver, offer, type Received } from '../../test/helpers/buyer/seller.ts'
import { createEvmBuyer } from '../chains/evmBuyer.ts'
import type { PayOptions } from '../payOptions.ts'

const world = await startEvmWorld(t)
const authorizer = privateKeyToAccount(generatePrivateKey()).address
const extra = {
  name: 'USDC',
  version: '2',
  receiverAuthorizer: authorizer,
  withdrawDelay: 86_400,
  minDeposit: '100000',
}
const mismatch = 'invalid_batch_settlement_evm_cumulative_amount_mismatch'

type Voucher = { channelId: string; maxClaimableAmount: string; signature: string }
const voucherIn = ({ payment }: Received): Voucher => (payment!['payload'] as { voucher: Voucher }).voucher

/** Pays a seller of channels that does this with the payment. @returns the run, and the totals that were signed */
async function pay(withPayment: Answer, more: object = {}, options: Partial<PayOptions> = {}) {
  const totals: bigint[] = []
  const wallet = createEvmBuyer({ privateKey: world.privateKey, rpcUrl: world.chain.rpcUrl })
  const counted = {
    ...wallet,
    signChannel: (...args: Parameters<NonNullable<typeof wallet.signChannel>>) => {
      totals.push(args[1].totalAtomic)
      return wallet.signChannel!(...args)
    },
  }
  const answer: Answer = (request, response, seller) =>
    request.payment === null
      ? offer(response, channelOffer(seller.url, more))
      : withPayment(request, response, seller)
  const run = await world.pay(answer, {
    deposit: '1',
    wallets: { eip155: counted },
    chainWaitMs: 300,
    ...options,
  })
  return { ...run, totals }
}

const channelOffer = (url: string, more: object = {}, rest: object = {}) =>
  world.offerFor(url, { scheme: 'batch-settlement', extra: { ...extra, ...more } }, rest)

t.test('channels that a buyer must not open are refused, and nothing is signed', async (t) => {
  const cases: [what: string, more: object, message: RegExp][] = [
    ['a delay below 15 minutes', { withdrawDelay: 899 }, /withdrawDelay/],
    ['a delay above 30 days', { withdrawDelay: 2_592_001 }, /withdrawDelay/],
    ['a delay as text', { withdrawDelay: '86400' }, /withdrawDelay/],
    ['no authorizer', { receiverAuthorizer: undefined }, /receiverAuthorizer/],
    ['the authorizer zero', { receiverAuthorizer: `0x${'0'.repeat(40)}` }, /receiverAuthorizer/],
    ['a foreign token domain', { name: 'USD Coin' }, /EIP-712/],
    ['a deposit above --deposit', { minDeposit: '1000001' }, /at least 1\.000001 USDC/],
    [
      'Permit2 and a delay below 15 minutes',
      { assetTransferMethod: 'permit2', withdrawDelay: 899 },
      /withdrawDelay/,
    ],
    ['an unknown transfer method', { assetTransferMethod: 'permit3' }, /transfer method/],
  ]
  for (const [what, more, message] of cases) {
    const run = await pay(() => t.fail(what), more)
    t.match(run.report, { outcome: 'refused', charged: 'no', message }, what)
    t.strictSame(run.totals, [], what)
    t.strictSame(run.seller.paid(), [], what)
  }
})

t.test("a total that the wallet's own voucher does not prove is not continued", async (t) => {
  const stranger = privateKeyToAccount(generatePrivateKey())
  const corrections: [what: string, correction: (voucher: Voucher) => Promise<object>][] = [
    ['a foreign signature', async ({ channelId }) => ({ voucherState: await signedBy(stranger, channelId) })],
    ['no number', async (own) => ({ channelState: {}, voucherState: stateOf(own) })],
    [
      'more than the voucher',
      async (own) => ({ channelState: { chargedCumulativeAmount: '10001' }, voucherState: stateOf(own) }),
    ],
    ['an empty proof', async () => ({ voucherState: {} })],
    ['no voucher', async () => ({})],
  ]
  for (const [what, correction] of corrections) {
    const { report, totals } = await pay(async (request, response, seller) => {
      const channelState = { chargedCumulativeAmount: '500000' }
      const corrected = { channelState, ...(await correction(voucherIn(request))) }
      offer(response, channelOffer(seller.url, corrected, { error: mismatch }))
    })
    t.match(
      report,
      { outcome: 'rejected', charged: 'not_yet', message: /mismatch.*not been charged so far/ },
      `${what}: ${report.message}`,
    )
    t.strictSame(totals, [10_000n], what)
  }
})

t.test('a seller that shows the voucher of this call as charged gets no second voucher for it', async (t) => {
  const { report, totals } = await pay((request, response, seller) => {
    const own = voucherIn(request)
    const channelState = { chargedCumulativeAmount: own.maxClaimableAmount }
    const corrected = { channelState, voucherState: stateOf(own) }
    offer(response, channelOffer(seller.url, corrected, { error: mismatch }))
  })
  t.match(
    report,
    { outcome: 'bad_response', charged: 'unknown', message: /voucher as charged/ },
    report.message,
  )
  t.strictSame(totals, [10_000n])
})

t.test('a receipt that does not continue the total is not verified', async (t) => {
  const receiptOf = (chargedAmount: unknown, chargedCumulativeAmount: unknown) => ({
    success: true,
    transaction: '',
    network: world.chain.network,
    extra: { channelState: { chargedCumulativeAmount }, chargedAmount },
  })
  const cases: [what: string, receipt: object | undefined, message: RegExp][] = [
    ['none', undefined, /no receipt/],
    ['too much', receiptOf('10001', '10001'), /another amount/],
    ['another total', receiptOf('10000', '20000'), /another amount/],
    ['no amount', receiptOf(undefined, '10000'), /what was charged/],
    ['no deposit on chain', receiptOf('10000', '10000'), /does not show the deposit/],
  ]
  for (const [what, receipt, message] of cases) {
    const { report } = await pay((_request, response) => deliver(response, receipt))
    t.match(report, { outcome: 'unverified', isVerified: false, message }, `${what}: ${report.message}`)
  }
})

t.test('a seller without channels is paid for this call alone', async (t) => {
  const run = await world.pay(world.honest, { deposit: '1' })
  t.match(run, { report: { outcome: 'paid', payment: { scheme: 'exact' }, channel: null }, spent: 10_000n })
})

const stateOf = ({ maxClaimableAmount, signature }: Voucher) => ({
  signedMaxClaimable: maxClaimableAmount,
  signature,
})

async function signedBy(account: ReturnType<typeof privateKeyToAccount>, channelId: string) {
  const typed = voucherTypedData(world.chain.network, channelId, 500_000n)
  const signature = await account.signTypedData(typed as Parameters<typeof account.signTypedData>[0])
  return { signedMaxClaimable: '500000', signature }
}
