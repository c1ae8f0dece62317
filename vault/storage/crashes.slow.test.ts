import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import fc from 'fast-check'
import t from 'tap'
import { type FolderImage, watchCrashes, writeImage } from '../../test/helpers/vault/crashes.ts'
import { ManualClock } from '../../test/helpers/vault/manualClock.ts'
import { quickHasher } from '../../test/helpers/vault/quickHasher.ts'
import type { Vault } from '../ports/vault.ts'
import { kdfFloor } from './password/kdf.ts'

// After the module above, which patches the file system.
const { createVault } = await import('./createVault.ts')
const { openVault } = await import('./localVault.ts')
const { restoreVault } = await import('./restoreVault.ts')

const passwords = ['correct horse battery', 'another long password']
const KILLS = 20

const lengthsOf = (image: FolderImage): string =>
  [...image].map(([name, bytes]) => `${name} ${bytes.length}`).join()

const temporary = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'vault-crashes-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** How often each kind of change was started, and how often it was confirmed. */
interface Progress {
  begun: { records: number; budget: number; log: number }
  answered: { records: number; budget: number; log: number }
}

const acts = ['record', 'remove', 'reserve', 'log', 'password', 'lock', 'together'] as const
type Act = (typeof acts)[number]

/** One change of a vault, and whether it was confirmed. */
async function perform(act: Act, vault: Vault, progress: Progress, isSecondPassword: boolean): Promise<void> {
  const { begun, answered } = progress
  if (act === 'together')
    return void (await Promise.all(
      (['record', 'reserve', 'log'] as const).map((one) => perform(one, vault, progress, isSecondPassword)),
    ))
  if (act === 'record') {
    const n = ++begun.records
    await vault.records.put('value', 'identity.name', String(n))
    answered.records = n
  }
  // Deleted data is wiped from the files at once.
  if (act === 'remove') {
    await vault.records.put('value', 'custom.old', 'x')
    await vault.records.delete('value', 'custom.old')
  }
  if (act === 'reserve') {
    const n = ++begun.budget
    const spends = [{ asset: 'usdc', amount: 1n, recipient: 'shop' }]
    const reserved = vault.budget.reserve({ id: `r${n}`, spends, agentId: 'agt_1', limits: [] })
    if (!reserved.ok) throw new Error('there is no limit')
    await reserved.durable
    answered.budget = n
    vault.budget.commit(`r${n}`)
  }
  if (act === 'log') {
    const n = ++begun.log
    await vault.audit.append({ agent: 'shopper', action: 'SIGN', status: 'AUTO_APPROVED' })
    answered.log = n
  }
  const [current, next] = isSecondPassword ? passwords.toReversed() : passwords
  if (act === 'password') await vault.changePassword(current!, next!)
  if (act === 'lock') {
    await vault.lock()
    await vault.unlock(current!)
  }
}

/** Opens with the password that fits, like an owner who does not know whether it was changed. */
async function openAny(home: string): Promise<{ readonly vault: Vault; readonly password: number }> {
  const clock = new ManualClock()
  const vault = await openVault({ home, clock, hasher: quickHasher })
  for (const [at, password] of passwords.entries()) {
    // A kill during a password check leaves an attempt that counts as a wrong password.
    clock.pass(600_000)
    const refusal = await vault.unlock(password).then(
      () => undefined,
      (error) => error,
    )
    if (refusal === undefined) return { vault, password: at }
    if (refusal.code !== 'BAD_PASSWORD') {
      await vault.close()
      throw refusal
    }
  }
  await vault.close()
  throw new Error('no password fits')
}

/** What is wrong with a vault that a crash left; undefined when its owner gets everything that was confirmed. */
async function wrongWith(home: string, { begun, answered }: Progress): Promise<string | undefined> {
  let vault: Vault
  try {
    ;({ vault } = await openAny(home))
  } catch (error) {
    return String(error)
  }
  try {
    const records = Number(vault.records.getText('value', 'identity.name') ?? 0)
    const used = vault.budget.used({ kind: 'vault' }, 'usdc')
    const { entries } = await vault.audit.query({ action: 'SIGN', limit: 500 })
    const found = { records, budget: Number(used.spent + used.reserved), log: entries.length }
    const verdict = await vault.audit.verify()
    if (vault.state.auditDamage !== undefined || !verdict.ok)
      return `the log: ${vault.state.auditDamage} ${JSON.stringify(verdict)}`
    for (const kind of ['records', 'budget', 'log'] as const)
      if (found[kind] < answered[kind] || found[kind] > begun[kind])
        return `${kind}: ${found[kind]} of ${answered[kind]} answered and ${begun[kind]} begun`
    return undefined
  } finally {
    await vault.close()
  }
}

t.test(
  'a kill or a power cut at any write of a vault locks no owner out and loses nothing that was answered',
  async (t) => {
    const folder = temporary()
    const start = join(folder, 'start')
    const { vault } = await createVault({
      home: start,
      password: passwords[0]!,
      hasher: quickHasher,
      kdf: kdfFloor,
    })
    await vault.close()
    let run = 0
    let opened = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom(...acts), { minLength: 4, maxLength: 10 }),
        fc.array(fc.tuple(fc.nat(), fc.boolean()), { minLength: 6, maxLength: 6 }),
        async (list, chosen) => {
          const home = join(folder, `home-${run++}`)
          cpSync(start, home, { recursive: true })
          const progress: Progress = {
            begun: { records: 0, budget: 0, log: 0 },
            answered: { records: 0, budget: 0, log: 0 },
          }
          const { moments, stop } = watchCrashes(home, () => structuredClone(progress))
          const clock = new ManualClock()
          const live = await openVault({ home, clock, hasher: quickHasher })
          await live.unlock(passwords[0]!)
          let isSecond = false
          for (const act of list) {
            await perform(act, live, progress, isSecond)
            if (act === 'password') isSecond = !isSecond
          }
          await live.close()
          stop()
          for (const [at, isPowerCut] of chosen) {
            const which = at % moments.length
            const { killed, powerCut, note } = moments[which]!
            const crashed = join(folder, 'crashed')
            writeImage(crashed, isPowerCut ? powerCut : killed)
            opened++
            const wrong = await wrongWith(crashed, note)
            const how = isPowerCut ? 'power cut' : 'kill'
            if (wrong !== undefined)
              throw new Error(`${how} at change ${which} of ${moments.length}: ${wrong}`)
          }
          rmSync(home, { recursive: true })
        },
      ),
      {
        numRuns: 6,
        examples: [
          // All files are written at once, and the power is cut repeatedly.
          [Array(8).fill('together'), Array.from({ length: 24 }, (_, n) => [20 + n * 4, true])],
          [[...acts], Array.from({ length: 6 }, (_, n) => [n * 11, n % 2 === 0])],
        ],
      },
    )
    t.pass(`${opened} crashes`)
  },
)

t.test(
  'a kill, and then a power cut while the vault opens again, locks no owner out: what it reads is on disk first',
  async (t) => {
    const folder = temporary()
    const home = join(folder, 'home')
    const common = { hasher: quickHasher, clock: new ManualClock() }
    await (await createVault({ home, password: passwords[0]!, kdf: kdfFloor, ...common })).vault.close()
    const progress: Progress = {
      begun: { records: 0, budget: 0, log: 0 },
      answered: { records: 0, budget: 0, log: 0 },
    }
    const first = watchCrashes(home, () => structuredClone(progress))
    const vault = await openVault({ home, ...common })
    await vault.unlock(passwords[0]!)
    for (const act of ['together', 'together', 'remove', 'together'] as const)
      await perform(act, vault, progress, false)
    await vault.close()
    first.stop()
    // Whole entries that no flush has covered yet: their caller has no response, but a vault that opens reads them.
    const unflushed = first.moments.filter(({ killed, powerCut }) =>
      [...killed].some(([name, bytes]) => name.endsWith('-wal') && bytes.length > powerCut.get(name)!.length),
    )
    t.ok(unflushed.length > 5, `${unflushed.length} transactions`)
    let cuts = 0
    for (let at = 0; at < unflushed.length; at += Math.ceil(unflushed.length / 4)) {
      const { killed, powerCut, note } = unflushed[at]!
      writeImage(home, killed)
      const second = watchCrashes(home, () => {}, powerCut)
      const again = await openVault({ home, ...common })
      await again.unlock(passwords[0]!)
      await again.close()
      second.stop()
      const images = new Map(second.moments.map(({ powerCut }) => [lengthsOf(powerCut), powerCut]))
      for (const image of [...images.values()].slice(0, 8)) {
        writeImage(home, image)
        const wrong = await wrongWith(home, note)
        if (wrong !== undefined) t.fail(`power cut ${cuts}: ${wrong}`)
        cuts++
      }
    }
    t.pass(`${cuts} power cuts`)
  },
)

t.test(
  'a kill while a vault is made or restored leaves one that opens, or says what to do with what is there',
  async (t) => {
    const folder = temporary()
    const home = join(folder, 'home')
    const common = { hasher: quickHasher, clock: new ManualClock() }
    const file = join(folder, 'backup')
    const begin = { password: passwords[0]!, kdf: kdfFloor, ...common }
    const nothing: Progress = {
      begun: { records: 0, budget: 0, log: 0 },
      answered: { records: 0, budget: 0, log: 0 },
    }
    const makings = {
      create: (home: string) => createVault({ home, ...begin }),
      restore: (home: string) => restoreVault({ home, file, ...begin }),
    }
    for (const [name, make] of Object.entries(makings)) {
      mkdirSync(home, { mode: 0o700 })
      const { moments, stop } = watchCrashes(home, () => {})
      const { vault } = await make(home)
      stop()
      if (name === 'create') await vault.backup(file)
      await vault.close()
      rmSync(home, { recursive: true })
      const images = moments.map(({ killed }) => killed)
      for (let at = 0; at < images.length; at += 4) {
        writeImage(home, images[at]!)
        const which = `${name}, change ${at} of ${images.length}`
        if (images[at]!.has('vault.json')) t.equal(await wrongWith(home, nothing), undefined, which)
        else if (!images[at]!.has('vault.1.db')) await (await make(home)).vault.close()
        // They could be the remains of a vault that lost its header.
        else
          await t.rejects(
            async () => void (await make(home)),
            { code: 'VAULT_EXISTS', message: /Choose an empty folder/ },
            which,
          )
        rmSync(home, { recursive: true })
      }
    }
  },
)

/** Opens the vault and changes it until it is killed, and prints what was started and what was confirmed. */
const program = (home: string): string => `
  const { openVault } = await import(${JSON.stringify(import.meta.resolve('./localVault.ts'))})
  const { quickHasher } = await import(${JSON.stringify(import.meta.resolve('../../test/helpers/vault/quickHasher.ts'))})
  const { ManualClock } = await import(${JSON.stringify(import.meta.resolve('../../test/helpers/vault/manualClock.ts'))})
  const vault = await openVault({ home: ${JSON.stringify(home)}, hasher: quickHasher, clock: new ManualClock() })
  const passwords = ${JSON.stringify(passwords)}
  const [from, at] = process.argv[1].split(' ').map(Number)
  await vault.unlock(passwords[at])
  for (let n = from, password = at; ; n++) {
    console.log('begun ' + n)
    const reserved = vault.budget.reserve({
      id: 'r' + n, spends: [{ asset: 'usdc', amount: 1n, recipient: 'shop' }], agentId: 'agt_1', limits: [],
    })
    await Promise.all([
      reserved.durable,
      vault.records.put('value', 'identity.name', String(n)),
      vault.audit.append({ agent: 'shopper', action: 'SIGN', status: 'AUTO_APPROVED' }),
    ])
    console.log('answered ' + n)
    if (n % 40 === 39) {
      await vault.changePassword(passwords[password], passwords[1 - password])
      password = 1 - password
    }
  }
`

t.test(`${KILLS} real kills, one after the other, of a process that writes all it can write`, async (t) => {
  const home = join(temporary(), 'home')
  const { vault } = await createVault({ home, password: passwords[0]!, hasher: quickHasher, kdf: kdfFloor })
  await vault.close()
  let begun = 0
  let answered = 0
  let responses = 0
  for (let kill = 0; kill < KILLS; kill++) {
    const before = await openAny(home)
    await before.vault.close()
    const child: ChildProcess = spawn(
      process.execPath,
      ['--input-type=module', '-e', program(home), `${begun + 1} ${before.password}`],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    const stopAt = begun + 30 + kill * 7
    createInterface(child.stdout!).on('line', (line) => {
      const [what, n] = line.split(' ')
      if (what === 'begun') begun = Number(n)
      if (what === 'answered') {
        answered = Number(n)
        responses++
      }
      if (begun >= stopAt) child.kill('SIGKILL')
    })
    await once(child, 'close')
    const { vault } = await openAny(home)
    t.equal(vault.state.auditDamage, undefined)
    t.match(await vault.audit.verify(), { ok: true })
    const kept = Number(vault.records.getText('value', 'identity.name'))
    const { spent, reserved } = vault.budget.used({ kind: 'vault' }, 'usdc')
    t.ok(kept >= answered, `kill ${kill}: ${kept} of ${answered} kept`)
    t.ok(Number(spent + reserved) >= responses, `and ${spent + reserved} of ${responses} reservations`)
    await vault.close()
  }
})
