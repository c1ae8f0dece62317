import t from 'tap'
import { startVault } from '../../../test/helpers/vault/startVault.ts'

const noWait = { prefer: 'wait=0' }

t.test('the owner is shown every question that is open, however many there are', async (t) => {
  const vault = await startVault(t)
  const requests: string[] = []
  for (let n = 0; n < 26; n++) {
    const agent = await vault.agent(`asker-${n}`, ['ask:write:custom.*'])
    for (let i = 0; i < 20; i++) {
      const { body } = await agent.call(
        'POST',
        '/v1/vault/write',
        { scope: `custom.x${i}`, value: `${n}`, agent_name: 'x' },
        noWait,
      )
      requests.push(body.approval_id)
    }
  }
  t.equal(new Set(requests).size, 520)
  const { approvals } = vault.api.approvals.list(vault.owner, { status: 'pending' })
  const shown = new Set(approvals.map(({ id }) => id))
  t.strictSame(
    requests.filter((id) => !shown.has(id)),
    [],
    `${shown.size} of ${requests.length} are shown`,
  )
})
