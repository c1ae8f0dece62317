import t from 'tap'
import { channelsSection } from './helpers/channelBuyer.ts'
import { reportOf, startPayingVault } from './helpers/payingVault.ts'
import { startProduct } from './helpers/product.ts'

const product = await startProduct(t, { evm: channelsSection() })
const { chains } = product
const [evm] = chains.both
const vault = await startPayingVault(t, chains)
const url = await product.addLink('metered')
const pay = (n: number, ...flags: string[]) => vault.pay(`${url}?n=${n}`, evm, { flags })
const balance = () => evm.balance(vault.addresses.evm)

t.test(
  'the owner is asked about a deposit, with its receiver, its amount and its longest time',
  async (t) => {
    const paying = pay(0, '--deposit', '0.2')
    const question = await vault.question()
    t.match(question, {
      kind: 'deposit',
      amount: '0.2',
      currency: 'USDC',
      recipient: product.wallets.base,
      opaque: false,
    })
    t.match(question.effects.join(' '), /Deposit 0\.2 USDC into a payment channel to 0x\w{40}\. /)
    t.match(
      question.effects.join(' '),
      /by vouchers .* without asking.* at the latest 1 hour after a withdrawal/,
    )
    t.match(question.reasons.join(' '), /Deposits into payment channels need your approval/)
    t.match(await vault.used(evm), { spent: 0n, reserved: 200_000n }, 'the deposit is held in the budget')
    await vault.approve(question)
    t.match(await reportOf(paying), { outcome: 'paid', isVerified: true, channel: { left: '0.19' } })
    t.equal(await balance(), 9_800_000n)
  },
)

t.test('vouchers of the channel are signed without asking, and count nothing more', async (t) => {
  for (const n of [1, 2])
    t.match(await reportOf(pay(n)), { outcome: 'paid', channel: { left: n === 1 ? '0.18' : '0.17' } })
  t.match(await vault.used(evm), { spent: 200_000n, reserved: 0n })
  t.strictSame((await vault.signings()).slice(-2), ['AUTO_APPROVED', 'AUTO_APPROVED'])
})

t.test('a voucher over more than the deposits, or of a channel without one, is refused', async (t) => {
  const offer = (await (await fetch(url)).json()) as { accepts: { scheme: string; payTo: string }[] }
  const order = (voucher_total: string, change: object = {}) => {
    const accepts = offer.accepts
      .filter(({ scheme }) => scheme === 'batch-settlement')
      .map((entry) => ({ ...entry, ...change }))
    return fetch(`${vault.url}/v1/vault/sign-payment`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${vault.token}` },
      body: JSON.stringify({
        payment_required: { ...offer, accepts },
        max_amount: '0.01',
        voucher_total,
        agent_name: 'shopper',
      }),
    })
  }
  t.equal((await order('0.2')).status, 200, 'all of it')
  const above = await order('0.200001')
  t.match([above.status, await above.json()], [403, { error: { code: 'BUDGET_EXCEEDED_TX' } }])
  const other = await order('0.01', { payTo: '0x00000000000000000000000000000000deadbeef' })
  t.match([other.status, await other.json()], [403, { error: { code: 'SCOPE_DENIED' } }])
})

t.test('what is left comes back, and a rule fills the channel without asking', async (t) => {
  t.match(await reportOf(pay(3, '--refund-channel')), { outcome: 'refunded', exitCode: 0 })
  t.equal(await balance(), 9_970_000n)
  const denied = pay(4, '--deposit', '0.3')
  await vault.deny(await vault.question())
  t.match(await reportOf(denied), { outcome: 'vault_refused', charged: 'no' })
  const assets = [
    { chain: 'base-sepolia', symbol: 'USDC', autoApproveUpTo: '0.5', perTransaction: '1', perDay: '3' },
  ]
  await vault.setRules({ assets, deposits: { autoApproveUpTo: '0.3', maxHours: 1 } })
  t.match(await reportOf(pay(4, '--deposit', '0.3')), { outcome: 'paid', channel: { left: '0.29' } })
  t.equal(await balance(), 9_670_000n)
  await vault.setRules({ assets, deposits: 'deny' })
  t.match(await reportOf(pay(5)), { outcome: 'paid', channel: { left: '0.28' } })
  t.match(await reportOf(pay(6, '--refund-channel')), { outcome: 'refunded' })
  t.match(await reportOf(pay(7, '--deposit', '0.3')), { outcome: 'vault_refused' })
  await t.rejects(vault.setRules({ deposits: { autoApproveUpTo: 1, maxHours: 1 } }), /deposits/)
  t.equal(await vault.verify(), true)
})
