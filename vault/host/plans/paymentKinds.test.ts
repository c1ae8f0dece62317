import t from 'tap'
import { startVault } from '../../../test/helpers/vault/startVault.ts'

const url = 'https://api.example.com/paid'
const account = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'
const entry = {
  network: 'eip155:8453',
  amount: '250000',
  asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
  payTo: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
  maxTimeoutSeconds: 300,
}
const extra = {
  name: 'USD Coin',
  version: '2',
  facilitatorAddress: account,
  receiverAuthorizer: account,
  withdrawDelay: 86_400,
}
const orderOf = (scheme: string, more: object = {}) => ({
  payment_required: { x402Version: 2, resource: { url }, accepts: [{ ...entry, scheme, extra }] },
  max_amount: '0.25',
  url,
  agent_name: 'shopper',
  ...more,
})

t.test('the owner sees whether a payment is an exact amount, a maximum or a deposit', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('shopper', ['wallet.base'])
  const cases = [
    ['payment', orderOf('exact'), /Send 0\.25 USDC to 0x3C44/],
    ['payment_up_to', orderOf('upto'), /Send at most 0\.25 USDC to 0x3C44.*submitted by 0x7099/],
    [
      'deposit',
      orderOf('batch-settlement', { voucher_total: '0.25', deposit: '2' }),
      /Deposit 2 USDC into a payment channel to 0x3C44.*at the latest 24 hours after a withdrawal/,
    ],
  ] as const
  for (const [kind, order, words] of cases) {
    const asked = await agent.call('POST', '/v1/vault/sign-payment', order, { prefer: 'wait=0' })
    t.equal(asked.status, 202, JSON.stringify(asked.body))
    const view = vault.api.approvals.get(asked.body.approval_id, vault.owner)
    t.match(view, { kind, amount: kind === 'deposit' ? '2' : '0.25', recipient: entry.payTo })
    t.match(view.effects.join(' '), words)
  }
})

t.test('a channel request with a wrong total or deposit is refused before the owner is asked', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('shopper', ['wallet.base'])
  const cases: [more: object, status: number, code: string][] = [
    [{ voucher_total: '0.25' }, 403, 'SCOPE_DENIED'],
    [{ voucher_total: 'much', deposit: '1' }, 400, 'VALIDATION_ERROR'],
    [{ voucher_total: '0.25', deposit: '-1' }, 400, 'VALIDATION_ERROR'],
    [{ voucher_total: '0.25', deposit: '0' }, 400, 'VALIDATION_ERROR'],
    [{ voucher_total: '0.1', deposit: '0.05' }, 400, 'VALIDATION_ERROR'],
    [{ voucher_total: '0.5', deposit: '0.2' }, 400, 'VALIDATION_ERROR'],
    [{ voucher_total: '0.25', deposit: '1', max_amount: '0.2' }, 403, 'BUDGET_EXCEEDED_TX'],
    [{ voucher_total: '0.25', deposit: '1', network: 'eip155:1' }, 403, 'SCOPE_DENIED'],
  ]
  for (const [more, status, code] of cases) {
    const order = orderOf('batch-settlement', more)
    const refused = await agent.call('POST', '/v1/vault/sign-payment', order, { prefer: 'wait=0' })
    t.match(refused, { status, body: { error: { code } } }, JSON.stringify(more))
  }
  t.strictSame(vault.api.approvals.list(vault.owner).approvals, [])
})
