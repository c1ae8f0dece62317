import t from 'tap'
import { startVault } from '../../test/helpers/vault/startVault.ts'

const strict = { assets: [], recipients: 'any' }

t.test(
  'an agent gets no name that stands for others: the rule for all agents stays the one that its owner changes',
  async (t) => {
    const vault = await startVault(t)
    for (const name of ['default', 'Default', 'all', 'ALL', 'owner', 'vault', 'unknown'])
      t.match(
        await vault.asOwner('POST', '/v1/vault/agents', { name, scopes: [] }),
        { status: 400, body: { error: { code: 'VALIDATION_ERROR' } } },
        name,
      )
    const shopper = (await vault.asOwner('POST', '/v1/vault/agents', { name: 'shopper', scopes: [] })).body
    // A name that is another agent's id: its rules are that agent's, as everywhere else.
    await vault.asOwner('POST', '/v1/vault/agents', { name: shopper.id, scopes: [] })
    t.match(await vault.asOwner('PUT', '/v1/vault/policies/default', strict), {
      status: 200,
      body: { id: 'default' },
    })
    t.match(await vault.asOwner('PUT', `/v1/vault/policies/${shopper.id}`, strict), {
      status: 200,
      body: { id: shopper.id },
    })
  },
)
