import t, { type Test } from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createPaymentFiles } from '../../cli/pay/paymentFiles.ts'
import { landDeposit } from '../../test/helpers/buyer/channelDeposit.ts'
import { startEvmWorld } from '../../test/helpers/buyer/evmWorld.ts'
import { type Answer, deliver, offer, startSeller } from '../../test/helpers/buyer/seller.ts'
import { createEvmBuyer } from '../chains/evmBuyer.ts'
import { payForUrl } from '../payForUrl.ts'
import { refundChannel } from './refundChannel.ts'

const world = await startEvmWorld(t)
const { chain, privateKey } = world
const newAddress = () => privateKeyToAccount(generatePrivateKey()).address
const termsOf = () => ({
  scheme: 'batch-settlement',
  extra: { name: 'USDC', version: '2', receiverAuthorizer: newAddress(), withdrawDelay: 86_400 },
})

/** A buyer with 0.99 USDC left in a channel, or with a deposit that has not landed, and its seller. */
async function startLeftover(t: Test, lands = true) {
  const terms = termsOf()
  let respond: Answer = async (request, response, { url }) => {
    if (request.payment === null) return offer(response, world.offerFor(url, terms))
    if (!lands) return response.writeHead(402).end()
    const payload = request.payment['payload'] as { deposit?: object }
    const transaction = payload.deposit === undefined ? '' : await landDeposit(chain, payload)
    const extra = { channelState: { chargedCumulativeAmount: '10000' }, chargedAmount: '10000' }
    deliver(response, world.receiptOf(transaction, { extra }))
  }
  const seller = await startSeller((...args) => respond(...args))
  t.teardown(() => seller.close())
  const options = {
    url: seller.url,
    wallets: { eip155: createEvmBuyer({ privateKey, rpcUrl: chain.rpcUrl }) },
    rpcUrl: chain.rpcUrl,
    payments: createPaymentFiles(`${t.testdir()}/payments`),
  }
  const pay = () => payForUrl({ ...options, deposit: '1' })
  const { outcome, channel, message } = await pay()
  const expected = lands ? { outcome: 'paid', channel: { left: '0.99' } } : { outcome: 'rejected' }
  t.match({ outcome, channel }, expected, message)
  const refund = (answer: Answer) => {
    respond = answer
    return refundChannel(options)
  }
  return { refund, pay, id: channel!.id, seller, terms }
}

t.test('a buyer whose seller does not refund is told how to withdraw without the seller', async (t) => {
  const cases: [what: string, answer: Answer, outcome: string][] = [
    ['an error', (_request, response) => response.writeHead(503).end(), 'refused'],
    [
      'other terms',
      (_request, response, { url }) => offer(response, world.offerFor(url, termsOf())),
      'refused',
    ],
    ['no channel', (_request, response, { url }) => offer(response, world.offerFor(url)), 'refused'],
    ['no response', (_request, response) => response.destroy(), 'failed'],
  ]
  for (const [what, answer, outcome] of cases) {
    const { refund, id } = await startLeftover(t)
    const report = await refund(answer)
    t.match(report, { outcome, charged: 'no' }, what)
    t.match(report.message, new RegExp(`The channel ${id} to 0x\\w{40} has 0\\.99 left`), what)
    t.match(report.message, /'initiateWithdraw\(.*' 990000 .*after 86400 seconds.*'finalizeWithdraw\(/, what)
  }
})

t.test('a seller that names other terms with each call gets one deposit', async (t) => {
  const changes: [what: string, change: () => object][] = [
    ['another authorizer', () => ({ receiverAuthorizer: newAddress() })],
    ['another delay', () => ({ withdrawDelay: 900 })],
  ]
  for (const [what, change] of changes) {
    const { pay, id, seller, terms } = await startLeftover(t)
    Object.assign(terms.extra, change())
    const report = await pay()
    t.match(report, { outcome: 'refused', charged: 'no', message: /names other terms.* 0\.99 left/ }, what)
    t.match(report.message, id)
    t.equal(seller.paid().length, 1)
  }
  const { pay, seller } = await startLeftover(t)
  t.match(await pay(), { payment: { scheme: 'batch-settlement' } }, 'the same terms')
  t.equal(seller.paid().length, 2)
})

t.test('a deposit that can still land counts as the first one', async (t) => {
  const { pay, seller, terms } = await startLeftover(t, false)
  terms.extra.receiverAuthorizer = newAddress()
  t.match(await pay(), { outcome: 'refused', message: /names other terms.* 1\.00 left/ })
  t.equal(seller.paid().length, 1)
})
