import t from 'tap'
import { password, startVault } from '../../test/helpers/vault/startVault.ts'
import { signBody, smallPayments, usdcOnBase } from '../../test/helpers/vault/transfers.ts'
import { VaultError } from '../errors/error.ts'

const purchase = {
  payment_required: {
    x402Version: 2,
    resource: { url: 'https://api.example.com/hello', description: '', mimeType: '' },
    accepts: [
      {
        scheme: 'exact',
        network: 'eip155:8453',
        amount: '500000',
        asset: usdcOnBase,
        payTo: `0x${'22'.repeat(20)}`,
        maxTimeoutSeconds: 60,
        extra: { name: 'USD Coin', version: '2' },
      },
    ],
  },
  max_amount: '5',
  agent_name: 'test',
}

t.test('a lock during signing gives back what was held for a signature that was never made', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('payer', ['wallet.base'])
  await vault.api.policies.set('payer', smallPayments, vault.owner)
  const { signer } = vault.vault
  const sign = signer.sign.bind(signer)
  signer.sign = async (request) => {
    signer.sign = sign
    await vault.api.lock(vault.owner)
    return sign(request)
  }
  const refused = await agent.call('POST', '/v1/vault/sign', signBody('0.5'))
  t.match([refused.status, refused.body], [423, { error: { code: 'VAULT_LOCKED' } }])
  await vault.api.unlock(password, vault.owner)
  const used = () =>
    vault.api.budget(vault.owner, 'payer').budget.find(({ asset }) => asset.includes('erc20'))
  t.match(used(), { spent: '0', reserved: '0' }, 'nothing was signed, so nothing is spent')

  const signed = await agent.call('POST', '/v1/vault/sign', signBody('0.5'))
  t.equal(signed.status, 200)
  t.match(used(), { spent: '500000', reserved: '0' }, 'and the same request is counted once it is signed')
})

t.test('a key whose money could not be given back buys once when it is used again', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('payer', ['wallet.base'])
  await vault.api.policies.set('payer', smallPayments, vault.owner)
  const { signer, budget } = vault.vault
  const [sign, release] = [signer.sign.bind(signer), budget.release.bind(budget)]
  signer.sign = async () => {
    signer.sign = sign
    // A full disk removes the reservation from memory, and refuses its release.
    budget.release = async (id) => {
      budget.release = release
      await release(id)
      throw new VaultError('STORAGE_UNAVAILABLE')
    }
    throw new VaultError('STORAGE_UNAVAILABLE')
  }
  const pay = () =>
    agent.call('POST', '/v1/vault/sign-payment', purchase, { 'idempotency-key': 'one-purchase' })
  t.equal((await pay()).status, 503)
  t.equal((await pay()).status, 200)
  const caller = { kind: 'agent', agent: vault.api.registry.byToken(agent.token)!, via: 'direct' } as const
  // With so many other keys the response is dropped.
  for (let n = 0; n < 1_000; n++) {
    const context = { caller, requestId: 'test', idempotencyKey: `other-${n}` }
    await vault.api.request('get_address', { chain: 'base', agent_name: 'test' }, context).catch(() => {})
  }
  t.match(await pay(), { status: 409, body: { error: { code: 'REQUEST_ID_USED' } } }, 'no second payment')
  const [used] = vault.api.budget(vault.owner, 'payer').budget.filter(({ asset }) => asset.includes('erc20'))
  t.match(used, { spent: '500000', reserved: '0' })
})
