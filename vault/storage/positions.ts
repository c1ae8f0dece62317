import type { JournaledBudget } from '../budget/journaledBudget.ts'
import { VaultError } from '../errors/error.ts'
import type { AuditMark } from '../ports/audit.ts'
import type { VaultHeader } from './password/header.ts'
import type { RecordStore } from './records/recordStore.ts'

/** How far the files of a vault had come, each as `lineage.number`: what each file keeps about the others. */
export interface Positions {
  readonly 'records.log': string
  readonly 'budget.log': string
  readonly 'vault.json': string
}

const files = ['records.log', 'budget.log', 'vault.json'] as const

/** The header counts the passwords after the first one. */
export const headerPosition = ({ files }: VaultHeader): string =>
  files === '' ? 'password.0' : readPositions(files)['vault.json']

/** What a header says that takes the place of the one of these positions. */
export function withNewHeader(positions: Positions): string {
  const [lineage, seq] = split(positions['vault.json'])
  return positionsText({ ...positions, 'vault.json': `${lineage}.${seq + 1}` })
}

/** Undefined while the files are closed. */
export function positionsOf(
  store: RecordStore,
  budget: JournaledBudget,
  header: VaultHeader,
): Positions | undefined {
  if (store.log === undefined || budget.log === undefined) return undefined
  return {
    'records.log': store.log.position,
    'budget.log': budget.log.position,
    'vault.json': headerPosition(header),
  }
}

export const positionsText = (positions: Positions): string => files.map((file) => positions[file]).join(' ')

export function readPositions(text: string): Positions {
  const [records = '', budget = '', header = ''] = text.split(' ')
  return { 'records.log': records, 'budget.log': budget, 'vault.json': header }
}

/** What the records and the budgets keep: how far the log had come, and the other files. */
export const markText = ({ seq, hash }: AuditMark, positions: string): string => `${seq} ${hash} ${positions}`

export function readMark(text: string): { readonly log: AuditMark; readonly positions: Positions } {
  const [seq, hash = '', ...positions] = text.split(' ')
  return { log: { seq: Number(seq), hash }, positions: readPositions(positions.join(' ')) }
}

/** What one file says of the others. */
export interface Said {
  readonly by: string
  readonly positions: Positions
}

/**
 * Each file names the others only as they were on disk already, so a crash leaves none of them behind what another says.
 * @throws `VAULT_CORRUPT` naming a file that is behind what another file says of it, or is not the one that it means
 */
export function assertNewest(have: Positions, said: readonly Said[]): void {
  for (const { by, positions } of said) {
    for (const file of files) {
      const [lineage, seq] = split(have[file])
      const [expectedLineage, expected] = split(positions[file])
      const found =
        lineage !== expectedLineage
          ? `${file} and ${by} of the vault are not from one folder: one of the two is from before the vault was restored`
          : `${file} of the vault is older than ${by}: it has ${seq} changes, and ${by} was written after ${expected}`
      if (lineage !== expectedLineage || seq < expected)
        throw new VaultError(
          'VAULT_CORRUPT',
          `${found}. Nothing was opened. Put the newest ${file} back, or restore the newest backup into another folder: tollgate vault restore.`,
        )
    }
  }
}

function split(position: string): readonly [lineage: string, seq: number] {
  const at = position.lastIndexOf('.')
  return [position.slice(0, at), Number(position.slice(at + 1))]
}
