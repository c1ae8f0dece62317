import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { VaultResponse } from '../../core/plugin/vault.ts'
import { silentLog } from '../../core/ports/log.ts'
import { createTestClock, mnemonic, password, quickHasher } from '../../test/helpers/vault/startVault.ts'
import { signBody, smallPayments, usdcOnBase } from '../../test/helpers/vault/transfers.ts'
import { createAssetTable } from '../effects/assets.ts'
import { isVaultError } from '../errors/error.ts'
import chainEvm from '../plugins/chain-evm/index.ts'
import type { Vault } from '../ports/vault.ts'
import { createVault } from '../storage/createVault.ts'
import { openVault } from '../storage/localVault.ts'
import type { OwnerContext } from './caller.ts'
import { createVaultApi, type VaultApi } from './createVaultApi.ts'

/**
 * The points of a payment at which the machine stops: each is a step of the vault's own ports, so that the vault needs no code
 * for this.
 */
const points = [
  'before the signature',
  'after the signature',
  'before the entry in the log',
  'after the entry in the log',
  'before the approval is used up',
  'after the approval is used up',
  'after the answer has left',
] as const
type Point = (typeof points)[number]

const owner: OwnerContext = { caller: { kind: 'owner', via: 'socket' }, requestId: 'test' }
const clock = createTestClock()
const kdf = { memoryKiB: 65_536, passes: 3, lanes: 1 }

/** USDC in smallest units: paid by the rules, and only after the owner's approval. */
const amounts = { 'by the rules': '500000', 'after an approval': '2000000' } as const
/** Uses up only an approval. */
const onlyApproved: readonly Point[] = ['before the approval is used up', 'after the approval is used up']

for (const [way, amount] of Object.entries(amounts))
  for (const point of points) {
    if (amount === amounts['by the rules'] && onlyApproved.includes(point)) continue
    t.test(`a payment made ${way}: the machine stops ${point}, and one payment at most leaves`, async (t) => {
      const machine = await start(t, join(mkdtempSync(join(tmpdir(), 'vault-')), 'home'), true)
      const { id, token } = await machine.api.agents.add({ name: 'shopper', scopes: ['wallet.base'] }, owner)
      await machine.api.policies.set(id, smallPayments, owner)
      if (amount === amounts['after an approval']) {
        t.match(await pay(machine.api, token, amount), { status: 202 })
        const [pendingApproval] = machine.api.approvals.list(owner).approvals
        await machine.api.approvals.approve(pendingApproval!.id, pendingApproval!.decision_hash, owner)
      }
      machine.stopAt(point)
      const first = await pay(machine.api, token, amount)
      if (point === 'after the answer has left') machine.stop()
      else t.equal(first, 'stopped')

      const after = await start(t, machine.left()!)
      const left = new Set<unknown>()
      if (typeof first !== 'string') left.add(bodyOf(first)['payment_header'])
      t.ok(counted(after.api, token) >= BigInt(left.size) * BigInt(amount), 'what has left counts as spent')
      for (let i = 0; i < 2; i++) {
        const again = await pay(after.api, token, amount)
        if (typeof again === 'string') t.equal(again, 'REQUEST_ID_USED', 'a clear refusal')
        else left.add(bodyOf(again)['payment_header'])
      }
      t.ok(left.size <= 1, `${left.size} payments have left`)
      const most = amount === amounts['after an approval'] ? 1n : 2n
      t.ok(counted(after.api, token) >= BigInt(left.size) * BigInt(amount), 'each is counted')
      t.ok(counted(after.api, token) <= most * BigInt(amount), 'and no more than was signed')
      t.match(await after.vault.audit.verify(), { ok: true }, 'the log is whole')
    })
  }

/** Signed by the rules, and only after the owner's approval, in USDC. */
const transfers = { 'by the rules': '0.5', 'after an approval': '2' } as const

for (const [way, amount] of Object.entries(transfers))
  for (const point of points) {
    if (way === 'by the rules' && onlyApproved.includes(point)) continue
    t.test(`a transaction signed ${way}: the machine stops ${point}; counted and logged once`, async (t) => {
      const machine = await start(t, join(mkdtempSync(join(tmpdir(), 'vault-')), 'home'), true)
      const { id, token } = await machine.api.agents.add({ name: 'shopper', scopes: ['wallet.base'] }, owner)
      await machine.api.policies.set(id, smallPayments, owner)
      const approve = async (api: VaultApi) => {
        const [pendingApproval] = api.approvals.list(owner).approvals
        await api.approvals.approve(pendingApproval!.id, pendingApproval!.decision_hash, owner)
      }
      if (way === 'after an approval') {
        t.match(await sign(machine.api, token, amount), { status: 202 })
        await approve(machine.api)
      }
      machine.stopAt(point)
      await sign(machine.api, token, amount)
      if (point === 'after the answer has left') machine.stop()

      const left = machine.left()!
      const signed = new Set<unknown>()
      let after = await start(t, left)
      for (let i = 0; i < 2; i++) {
        const response = await sign(after.api, token, amount)
        if (typeof response !== 'string') signed.add(bodyOf(response)['signed_tx'])
      }
      t.equal(signed.size, 1, 'the same signature, again and again')
      const micros = BigInt(Number(amount) * 1_000_000)
      t.equal(counted(after.api, token), micros, 'counted once')
      t.equal(await deeds(after), 1, 'one entry in the log')

      // Once more, when the response is no longer kept and the rules have changed.
      await after.api.close()
      clock.advance(600_000)
      after = await start(t, left)
      const generous = { ...smallPayments, assets: [{ ...smallPayments.assets[0], autoApproveUpTo: '5' }] }
      await after.api.policies.set(id, generous, owner)
      t.match(await sign(after.api, token, amount), { status: 200, body: { signed_tx: [...signed][0] } })
      await after.api.policies.set(id, smallPayments, owner)
      t.equal(counted(after.api, token), micros, 'and not again by a rule')
      t.equal(await deeds(after), 1)
      t.match(await after.vault.audit.verify(), { ok: true })
    })
  }

/** Entries about signatures that were made. */
const deeds = async ({ vault }: Machine): Promise<number> =>
  (await vault.audit.query({ action: 'SIGN' })).entries.filter(({ status }) => /APPROVED$/.test(status))
    .length

/** An agent's request to sign a transfer; always the same bytes for the same amount. */
async function sign(api: VaultApi, token: string, amount: string): Promise<VaultResponse | string> {
  const agent = api.registry.byToken(token)!
  const context = { caller: { kind: 'agent', agent, via: 'direct' } as const, requestId: 'test', waitMs: 0 }
  try {
    return await api.request('vault_sign_tx', signBody(amount), context)
  } catch (error) {
    return isVaultError(error) ? error.code : 'stopped'
  }
}

/** A folder, a vault in it, and a switch that stops the machine: only the folder's state at that moment is left. */
interface Machine {
  readonly api: VaultApi
  readonly vault: Vault
  /** The state that was left; undefined while nothing has stopped it. */
  left(): string | undefined
  stopAt(point: Point): void
  stop(): void
}

async function start(t: Test, home: string, isNew = false): Promise<Machine> {
  const opened = isNew
    ? (await createVault({ home, clock, password, mnemonic, kdf, hasher: quickHasher })).vault
    : await openVault({ home, clock, hasher: quickHasher })
  if (!isNew) await opened.unlock(password)
  let at: Point | undefined
  let left: string | undefined
  const stop = (): void => {
    left ??= copyOf(t, home)
  }
  const pass = (point: Point): void => {
    if (at !== point) return
    stop()
    throw new Error('The machine has stopped.')
  }
  const vault = faulty(opened, pass)
  const api = await createVaultApi({
    vault,
    chains: [chainEvm],
    enabled: ['base'],
    assets: createAssetTable(),
    egress: () => ({ request: () => Promise.reject(new Error('no way out')) }),
    rpc: () => undefined,
    clock,
    log: silentLog,
    localUrl: () => 'http://127.0.0.1:8420',
  })
  t.teardown(async () => {
    await api.close()
    rmSync(home, { recursive: true, force: true })
  })
  return { api, vault: opened, left: () => left, stop, stopAt: (point) => (at = point) }
}

/** The state after a kill: the files as they are now, and a lock whose process is gone. */
function copyOf(t: Test, home: string): string {
  const copy = join(mkdtempSync(join(tmpdir(), 'vault-stopped-')), 'home')
  t.teardown(() => rmSync(copy, { recursive: true, force: true }))
  cpSync(home, copy, { recursive: true, filter: (source) => !source.endsWith('.sock') })
  for (const name of readdirSync(copy)) if (/^lock\./.test(name)) rmSync(join(copy, name))
  return copy
}

/** The same vault, which checks the switch before and after each step of a payment. */
function faulty(vault: Vault, pass: (point: Point) => void): Vault {
  const { signer, audit, records } = vault
  const parts: Partial<Record<keyof Vault, object>> = {
    signer: {
      async sign(request: Parameters<typeof signer.sign>[0]) {
        pass('before the signature')
        const signature = await signer.sign(request)
        pass('after the signature')
        return signature
      },
    },
    audit: over(audit, {
      async append(event: Parameters<typeof audit.append>[0]) {
        const isDeed = event.action === 'SIGN' && /APPROVED$/.test(event.status)
        if (isDeed) pass('before the entry in the log')
        const entry = await audit.append(event)
        if (isDeed) pass('after the entry in the log')
        return entry
      },
    }),
    records: over(records, {
      async putJson(...args: Parameters<typeof records.putJson>) {
        const isUsedUp = args[0] === 'approval' && (args[2] as { state: string }).state === 'consumed'
        if (isUsedUp) pass('before the approval is used up')
        const written = await records.putJson(...args)
        if (isUsedUp) pass('after the approval is used up')
        return written
      },
    }),
  }
  return over(vault, parts)
}

/** An object with some properties replaced; methods see the object itself. */
function over<T extends object>(target: T, parts: object): T {
  // Over an empty object: a proxy of a frozen object must return that object's own properties.
  return new Proxy({} as T, {
    get(_empty, name) {
      if (Object.hasOwn(parts, name)) return Reflect.get(parts, name)
      const value = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** An agent's request for a payment of `amount` USDC, always the same under the same key; returns the code of the error. */
async function pay(api: VaultApi, token: string, amount: string): Promise<VaultResponse | string> {
  const agent = api.registry.byToken(token)
  if (agent === undefined) throw new Error('The agent is not known.')
  const input = {
    payment_required: {
      x402Version: 2,
      resource: { url: 'https://api.example.com/hello', description: '', mimeType: '' },
      accepts: [
        {
          scheme: 'exact',
          network: 'eip155:8453',
          amount,
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
  const context = {
    caller: { kind: 'agent', agent, via: 'direct' } as const,
    requestId: 'test',
    idempotencyKey: 'one-purchase',
    waitMs: 0,
  }
  try {
    return await api.request('vault_sign_x402', input, context)
  } catch (error) {
    return isVaultError(error) ? error.code : 'stopped'
  }
}

const bodyOf = (response: VaultResponse): Record<string, unknown> => response.body as Record<string, unknown>

/** The agent's USDC in the budget, spent or reserved. */
function counted(api: VaultApi, token: string): bigint {
  const agent = api.registry.byToken(token)!
  const { budget } = api.budget({ caller: { kind: 'agent', agent, via: 'direct' }, requestId: 'test' })
  const line = budget.find(({ asset }) => asset.toLowerCase().endsWith(usdcOnBase.toLowerCase()))
  return BigInt(line?.spent ?? 0) + BigInt(line?.reserved ?? 0)
}
