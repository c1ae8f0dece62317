import { randomBytes } from 'node:crypto'
import type { AuditLimits } from '../audit/auditEntry.ts'
import { ChainedAuditLog } from '../audit/chainedAuditLog.ts'
import { JournaledBudget } from '../budget/journaledBudget.ts'
import type { VaultFiles } from '../disk/files.ts'
import { type RowsPlace, SealedRows } from '../disk/sealedRows.ts'
import type { VaultDatabase } from '../disk/vaultDatabase.ts'
import { VaultError } from '../errors/error.ts'
import type { VaultClock } from '../ports/clock.ts'
import type { HostKeys } from '../signer/protocol.ts'
import type { SigningProcess } from '../signer/signingProcess.ts'
import { backupSaltBytes, writeBackup } from './backup.ts'
import type { HeaderPlace, VaultHeader } from './password/header.ts'
import { RecordStore } from './records/recordStore.ts'

export interface JournalsOptions {
  readonly files: VaultFiles
  readonly database: VaultDatabase
  readonly clock: VaultClock
  readonly limits?: AuditLimits | undefined
  readonly beforeUse?: () => void
  /** True for a vault that is being created or restored. */
  readonly isNew?: boolean
}

/** A vault's records, budget journal and log, which are opened and closed together. */
export class Journals {
  readonly #database: VaultDatabase
  readonly #rows: SealedRows
  readonly store: RecordStore
  readonly budget: JournaledBudget
  readonly audit: ChainedAuditLog

  constructor({ files, database, clock, limits, beforeUse = () => {}, isNew = false }: JournalsOptions) {
    this.#database = database
    this.store = new RecordStore(database, clock, beforeUse)
    this.budget = new JournaledBudget(database, clock, beforeUse)
    this.#rows = new SealedRows(database, { records: this.store.reader, budget: this.budget.reader })
    const { auditHead: headFile } = files
    this.audit = new ChainedAuditLog({ database, rows: this.#rows, headFile, clock, limits, isNew })
  }

  /** Starts the journals of a new vault. @param keys the journals keep a copy */
  create(vaultId: string, lineage: string, keys: HostKeys): void {
    this.#rows.create({ vaultId, lineage, key: keys.rows })
    this.#attach(vaultId, keys)
  }

  /**
   * @param keys the journals keep a copy
   * @throws `VAULT_CORRUPT` that names a file which is damaged or older than another. Nothing is written then
   */
  open({ vaultId, place }: VaultHeader, keys: HostKeys): void {
    this.#openRows({ vaultId, lineage: place.lineage, key: keys.rows }, place)
    this.#attach(vaultId, keys)
    this.#database.removeOlder()
  }

  /** Opens a backup's database with a new lineage. The files beside the old database then do not match it. */
  openAs(lineage: string, header: VaultHeader, keys: HostKeys): void {
    this.#rows.open({ vaultId: header.vaultId, lineage: header.place.lineage, key: keys.rows })
    this.#rows.rename(lineage)
    this.#attach(header.vaultId, keys)
  }

  /** Logs damage of the log, and which entries were written while the vault was locked. */
  async noteState(): Promise<void> {
    const { damage } = this.audit
    if (damage !== undefined) {
      await this.audit.append({
        agent: 'vault',
        action: 'CONFIG',
        status: 'FAILED',
        note: `The log: ${damage}.`,
      })
    }
    await this.audit.closeRun()
  }

  /** Logs that the signing process exited unexpectedly. */
  async noteLoss(): Promise<void> {
    const note = 'the signing process exited unexpectedly, so the vault is locked until the owner unlocks it'
    // If the log cannot be written, the vault is locked nevertheless.
    await this.audit.append({ agent: 'vault', action: 'LOCK', status: 'FAILED', note }).catch(() => {})
  }

  /** Writes pending changes, zeroes the keys and drops everything except the log. */
  async lock(): Promise<void> {
    await this.audit.lock()
    // A request that finished meanwhile may have added changes while the key was available.
    this.#database.flush()
    this.store.close()
    this.budget.close()
    this.#rows.close()
  }

  /** Closes the database. Call {@link lock} first. */
  close(): void {
    this.#database.close()
  }

  /** The values that the next header records about the database. */
  get nextPlace(): HeaderPlace {
    const { lineage, state } = this.#rows
    return { lineage, counter: state.counter, passwords: state.passwords + 1 }
  }

  /**
   * Called when a header with these values is on disk. The database stores the values too, so that it can detect an older
   * header.
   */
  async keepPlace({ passwords }: HeaderPlace): Promise<void> {
    await this.#database.change(() => {
      this.#rows.state.passwords = passwords
    })
  }

  /** @throws `ALREADY_EXISTS`, `STORAGE_UNAVAILABLE` */
  async backup(file: string, header: VaultHeader, process: SigningProcess): Promise<void> {
    const salt = randomBytes(backupSaltBytes)
    const key = await process.backupKey(salt)
    await writeBackup({ file, header, salt, key, database: this.#database }).finally(() => key.fill(0))
  }

  #openRows(at: RowsPlace, { counter, passwords }: HeaderPlace): void {
    this.#rows.open(at)
    const { state } = this.#rows
    const { name } = this.#database
    const [older, newer] =
      counter > state.counter ? [name, 'vault.json'] : passwords < state.passwords ? ['vault.json', name] : []
    if (older === undefined) {
      // The vault crashed after a new header was written and before the database stored its values.
      state.passwords = passwords
      return
    }
    this.#rows.close()
    throw new VaultError(
      'VAULT_CORRUPT',
      `${older} of the vault is older than ${newer}. The vault was not opened. Put the newest ${older} back, or restore the newest backup into another folder: tollgate vault restore.`,
    )
  }

  #attach(vaultId: string, keys: HostKeys): void {
    this.store.open(this.#rows, vaultId, keys.records)
    this.budget.open(this.#rows)
    this.audit.unlock(keys.audit)
  }
}
