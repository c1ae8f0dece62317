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

/** A buyer with 0.99 USDC left in a channel, and its seller, which then does something else with each request. */
async function startLeftover(t: Test) {
  const terms = termsOf()
  let respond: Answer = async (request, response, { url }) => {
    if (request.payment === null) return offer(response, world.offerFor(url, terms))
    const transaction = await landDeposit(chain, request.payment['payload'])
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
  const { outcome, channel, message } = await payForUrl({ ...options, deposit: '1' })
  t.match({ outcome, channel }, { outcome: 'paid', channel: { left: '0.99' } }, message)
  const refund = (answer: Answer) => {
    respond = answer
    return refundChannel(options)
  }
  return { refund, id: channel!.id, seller, terms }
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
