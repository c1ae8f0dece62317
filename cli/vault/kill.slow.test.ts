import t from 'tap'
import { parseTransaction } from 'viem'
import { ask, createVaultBox, type RunningProcess } from '../../test/helpers/cli/vault/vaultProcess.ts'
import { signBody, smallPayments } from '../../test/helpers/vault/transfers.ts'

interface Line {
  readonly asset: string
  readonly spent: string
  readonly reserved: string
}

async function boxWithAgent(t: Parameters<typeof createVaultBox>[0]) {
  const box = createVaultBox(t)
  await box.json(['init', ...box.withPassword])
  const { token } = await box.json(['agents', 'add', 'payer', '--scopes', 'wallet.base', ...box.withPassword])
  const rules = {
    ...smallPayments,
    assets: [{ ...smallPayments.assets[0], perDay: '1000' }],
    fees: [{ chain: 'base', perDay: '10' }],
  }
  await box.json(['policies', 'set', 'payer', '--file', '-', ...box.withPassword], JSON.stringify(rules))
  return { box, token: token as string }
}

/** USDC spent and reserved today, in smallest units. */
async function used(vault: RunningProcess, token: string): Promise<{ spent: number; reserved: number }> {
  const response = await ask(vault.url, token, '/v1/vault/budget')
  const lines: readonly Line[] = response?.body.budget ?? []
  const line = lines.find(({ asset }) => /833589f/i.test(asset))
  return { spent: Number(line?.spent ?? 0), reserved: Number(line?.reserved ?? 0) }
}

t.test('kill -9 at each step of an approval loses nothing and signs once', async (t) => {
  const { box, token } = await boxWithAgent(t)
  let vault = await box.serve()
  const sign = () => ask(vault.url, token, '/v1/vault/sign', signBody('2'))
  const restart = async () => {
    await vault.kill()
    vault = await box.serve()
  }

  const pendingApproval = await sign()
  t.equal(pendingApproval?.status, 202)
  const id = pendingApproval?.body.approval_id
  await restart()
  t.equal((await sign())?.body.approval_id, id, 'the question is still there')
  t.strictSame(await used(vault, token), { spent: 0, reserved: 2_000_000 }, 'and the money is held once')

  const { decision_hash } = await box.json(['approvals', id])
  await box.json(['approve', id, '--hash', decision_hash])
  await restart()
  t.equal((await ask(vault.url, token, `/v1/vault/approvals/${id}`))?.body.status, 'approved')
  t.strictSame(await used(vault, token), { spent: 0, reserved: 2_000_000 })

  const signed = await sign()
  t.equal(signed?.status, 200)
  await restart()
  t.strictSame(await used(vault, token), { spent: 2_000_000, reserved: 0 }, 'spent once')
  t.strictSame((await sign())?.body, signed?.body, 'the answer can be had again')
  t.strictSame(await used(vault, token), { spent: 2_000_000, reserved: 0 })
  const verdict = await box.json(['verify'])
  t.equal(verdict.ok, true)
  t.equal(await vault.stop(), 0)
})

t.test(
  'kill -9 in the middle of many signatures: every one that left was counted and written down',
  async (t) => {
    const { box, token } = await boxWithAgent(t)
    const left = new Set<number>()
    let nonce = 0
    for (let round = 0; round < 4; round++) {
      const vault = await box.serve()
      const wanted = 3 + round * 17
      let signed = 0
      const enough = Promise.withResolvers<void>()
      const workers = Array.from({ length: 8 }, async () => {
        for (;;) {
          const response = await ask(vault.url, token, '/v1/vault/sign', signBody('1', nonce++))
          if (response === null) return
          t.equal(response.status, 200)
          left.add(parseTransaction(response.body.signed_tx).nonce ?? 0)
          if (++signed === wanted) enough.resolve()
        }
      })
      await enough.promise
      await vault.kill()
      await Promise.all(workers)
    }
    const vault = await box.serve()
    const { spent, reserved } = await used(vault, token)
    t.ok(spent + reserved >= left.size * 1_000_000, `${left.size} left, ${spent + reserved} counted`)
    t.ok(spent + reserved <= nonce * 1_000_000, 'and nothing that was never asked for')
    t.equal(reserved, 0, 'what a crash left open was decided')
    const { stdout } = await box.run(['activity', '--action', 'SIGN', '--limit', '500', '--json'])
    t.ok(stdout.trimEnd().split('\n').length >= left.size)
    t.equal((await box.json(['verify'])).ok, true)
  },
)
