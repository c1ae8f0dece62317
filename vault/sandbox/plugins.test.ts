import t from 'tap'
import { pluginFrom } from '../../test/helpers/vault/pluginFrom.ts'
import { authorize, vaultWith } from '../../test/helpers/vault/vaultWithPlugins.ts'

t.test('a plugin sees frozen data, and whatever it does to it changes nothing', async (t) => {
  const plugin = await pluginFrom(
    t,
    authorize(`
      const tries = [
        () => { x.verdict.reasons.length = 0 },
        () => { x.verdict.reasons.push = () => 0 },
        () => { x.verdict.decision = 'allow' },
        () => { x.request.effects.pop() },
        () => { x.request.isOpaque = false },
        () => { x.input.amount = '0' },
        () => { x.caller.kind = 'owner' },
        () => { x.extra = 1 },
      ]
      for (const attempt of tries) {
        let failed = false
        try { attempt() } catch { failed = true }
        if (!failed) return { decision: 'deny', code: 'WRITABLE', message: String(attempt) }
      }
      for (const name of ['requireApproval', 'plan', 'reasons', 'who'])
        if (name in x) return { decision: 'deny', code: 'TOO_MUCH', message: name }
      Object.prototype.decision = 'allow'
      Array.prototype.push = () => 0
      Array.prototype.length = 0
      return { decision: 'allow' }`),
  )
  const { vault, sign } = await vaultWith(t, [plugin])
  const pendingApproval = await sign('3')
  t.equal(pendingApproval.status, 202, 'the rule that asks above 1 USDC still does')
  t.notOk('decision' in {}, 'this process has the prototypes that it had')
  const { reasons } = vault.api.approvals.get(pendingApproval.body.approval_id, vault.owner)
  t.ok(reasons.length > 0)
  const above = await sign('50', 1)
  t.equal(above.body.error.code, 'BUDGET_EXCEEDED_TX', 'nor what rules refuse')
})

t.test('a plugin can ask and deny, and says so under its name', async (t) => {
  const plugin = await pluginFrom(
    t,
    authorize(`
      if (x.operation !== 'vault_sign_tx') return
      // Its clock continues from the time that it was given.
      const sinceMs = ports.clock.now() - x.startedAtMs
      if (x.request.kind !== 'transaction' || x.request.chain !== 'base' || !(sinceMs >= 0 && sinceMs < 60_000))
        throw new Error('expected the request')
      if (String(x.input.amount) === '0.25') return { decision: 'deny', code: 'NOT_TODAY', message: 'Come back tomorrow.' }
      return { decision: 'ask', reason: 'A plugin wants it.' }`),
    { name: 'careful', more: "needs: ['clock'], slots: { authorize: { reads: ['verdict'] } }" },
  )
  const { vault, sign } = await vaultWith(t, [plugin])
  const pendingApproval = await sign()
  t.equal(pendingApproval.status, 202)
  t.strictSame(vault.api.approvals.get(pendingApproval.body.approval_id, vault.owner).reasons, [
    'Plugin careful: A plugin wants it.',
  ])
  t.match((await sign('0.25', 1)).body, {
    error: {
      code: 'APPROVAL_DENIED',
      message: 'The plugin careful refused the request: Come back tomorrow.',
      details: { plugin: 'careful', code: 'NOT_TODAY' },
    },
  })
})
