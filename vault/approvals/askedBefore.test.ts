import t from 'tap'
import { getAddress } from 'viem'
import { startVault } from '../../test/helpers/vault/startVault.ts'

const shop = '0x5e9ee1089755c3435139848e47e6635505d5a13a'
const usdc = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'

const offer = (payTo: string) => ({
  x402Version: 2,
  resource: { url: 'https://shop.example/x' },
  accepts: [
    {
      scheme: 'exact',
      network: 'eip155:8453',
      asset: usdc,
      amount: '1000000',
      payTo,
      maxTimeoutSeconds: 60,
      extra: { name: 'USD Coin', version: '2' },
    },
  ],
})

const send = (nonce: number, data = '0x') => ({
  type: 2,
  chainId: 8453,
  nonce,
  gas: 60_000,
  maxFeePerGas: 1_000_000,
  maxPriorityFeePerGas: 1,
  to: shop,
  value: '1000000000000000000',
  data,
})

t.test(
  'a payment that was asked for before is known again, however address and amount are written',
  async (t) => {
    const vault = await startVault(t)
    const agent = await vault.agent('buyer', ['wallet.base'])
    await vault.asOwner('PUT', '/v1/vault/policies/buyer', {
      assets: ['USDC', 'ETH'].map((symbol) => ({
        chain: 'base',
        symbol,
        perTransaction: '5',
        perDay: '50',
        autoApproveUpTo: '0',
      })),
      recipients: 'any',
    })
    const approved = async (path: string, body: object) => {
      const pendingApproval = await agent.call('POST', `/v1/vault/${path}`, body, { prefer: 'wait=0' })
      const of = `/v1/vault/approvals/${pendingApproval.body.approval_id}`
      const { body: card } = await vault.asOwner('GET', of)
      const { decision_hash, second_word } = card
      await vault.asOwner('POST', `${of}/approve`, { decision_hash, ...(second_word && { second_word }) })
      t.equal((await agent.call('POST', `/v1/vault/${path}`, body)).status, 200)
      return card
    }

    const pay = (payTo: string) =>
      approved('sign-payment', { payment_required: offer(payTo), max_amount: '1' })
    t.match(await pay(shop), { recipient: getAddress(shop), first_time: true, asked_before: null })
    t.match(await pay(getAddress(shop)), { first_time: false, asked_before: { status: 'consumed' } })

    for (const [data, ...amounts] of [
      ['0x', 1, '1.0', '1.00', '1'],
      ['0x12345678', '1.50', '1.5', '1.500'],
    ] as const)
      for (const [i, amount] of amounts.entries()) {
        const card = await approved('sign', { chain: 'base', amount, unsigned_tx: send(i, data) })
        t.equal(card.asked_before !== null, i > 0, `${amount} ${data}`)
        t.equal(card.amount, data === '0x' ? '1' : '1.5')
      }
  },
)
