import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Vault } from '../../../vault/ports/vault.ts'
import { createVault } from '../../../vault/storage/createVault.ts'
import { openVault } from '../../../vault/storage/localVault.ts'
import { kdfFloor } from '../../../vault/storage/password/kdf.ts'
import { ManualClock } from './manualClock.ts'
import { quickHasher } from './quickHasher.ts'

export const password = 'correct horse battery'

export const mnemonic = 'test test test test test test test test test test test junk'

type Test = { teardown(end: () => Promise<void>): void }

/** A folder of the test's own, removed once the vaults in it are closed. */
export function folderFor(t: Test) {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-vault-'))
  const opened: Vault[] = []
  t.teardown(async () => {
    for (const vault of opened) await vault.close()
    rmSync(folder, { recursive: true })
  })
  const closing = (vault: Vault): Vault => {
    opened.push(vault)
    return vault
  }
  return { folder, closing }
}

/** A vault without the cost of Argon2id, on a clock that stands still. */
export async function make(t: Test, options: { clock?: ManualClock } = {}) {
  const { clock = new ManualClock() } = options
  const { folder, closing } = folderFor(t)
  const home = join(folder, 'vault')
  const common = { home, clock, hasher: quickHasher }
  const { vault } = await createVault({ ...common, password, mnemonic, kdf: kdfFloor })
  closing(vault)
  const open = async (): Promise<Vault> => closing(await openVault(common))
  return { vault, home, clock, open, common, closing }
}

export const message = (requestId: string, keyId = 'evm:0') =>
  ({ requestId, keyId, kind: 'evm-message', bytes: Buffer.from('hello') }) as const
