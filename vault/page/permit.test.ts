import t from 'tap'
import { startVault } from '../../test/helpers/vault/startVault.ts'
import { payee, smallPayments, usdcOnBase } from '../../test/helpers/vault/transfers.ts'
import { summaryOf } from './app/approvals/kinds.ts'

const fields = (text: string) =>
  text.split(',').map((field) => {
    const [type, name] = field.split(' ')
    return { name, type }
  })

t.test('a permit whose agent claims nothing is about its amount and its spender', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('payer', ['wallet.base'])
  await vault.api.policies.set('payer', smallPayments, vault.owner)
  const { address } = (await agent.call('GET', '/address/base')).body
  const typedData = {
    types: { Permit: fields('address owner,address spender,uint256 value,uint256 nonce,uint256 deadline') },
    primaryType: 'Permit',
    domain: { name: 'USD Coin', version: '2', chainId: 8453, verifyingContract: usdcOnBase },
    message: { owner: address, spender: payee, value: '2500000', nonce: '0', deadline: '1800000000' },
  }
  const body = { chain: 'base', agent_name: 'payer', typed_data: typedData }
  const pendingApproval = await agent.call('POST', '/v1/vault/sign-typed-data', body, { prefer: 'wait=0' })
  t.equal(pendingApproval.status, 202)
  const [approval] = vault.api.approvals.list(vault.owner).approvals
  t.match(approval, { kind: 'allowance', amount: '2.5', currency: 'USDC', recipient: payee, opaque: false })
  t.ok(approval!.reasons.includes('The agent did not state what the request moves.'))
  t.equal(summaryOf(approval!), 'payer: Let another account take money, 2.5 USDC')
})
