import type pg from 'pg'

interface Definition {
  readonly table: string
  readonly name: string
  readonly definition: string
  /** Of a constraint its kind: primary key, unique, foreign key. Null of an index of its own. */
  readonly kind: 'p' | 'u' | 'f' | null
}

/** Of what an index is made in memory, where the server has less for it. */
const INDEX_MEMORY_KB = 256 * 1024

/**
 * Does some work while tables have no index, key and foreign key, and makes all of them again as they were: an index that is made
 * of rows that are there is sorted once, where each row would look for its place in it. In the caller's transaction.
 *
 * @param tables whose rows nobody else reads or writes before the commit
 * @param onTable hears whose keys and indexes are made
 * @throws the server's error when the rows break a key; the caller's transaction is over then
 */
export async function withoutIndexes<T>(
  client: pg.Client,
  tables: readonly string[],
  onTable: (table: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  const { rows: found } = await client.query<Definition>(definitions, [tables])
  const [indexes, keys, references] = [
    found.filter(({ kind }) => kind === null),
    found.filter(({ kind }) => kind === 'p' || kind === 'u'),
    found.filter(({ kind }) => kind === 'f'),
  ]
  for (const { table, name } of [...references, ...keys])
    await client.query(`ALTER TABLE ${table} DROP CONSTRAINT ${name}`)
  for (const { name } of indexes) await client.query(`DROP INDEX ${name}`)
  const done = await work()
  await client.query(
    `SELECT set_config('maintenance_work_mem', $1, true)
    FROM pg_settings WHERE name = 'maintenance_work_mem' AND setting::bigint < ${INDEX_MEMORY_KB}`,
    [`${INDEX_MEMORY_KB}kB`],
  )
  for (const table of tables) {
    onTable(table)
    for (const one of keys) if (one.table === table) await addConstraint(one)
    for (const one of indexes) if (one.table === table) await client.query(one.definition)
  }
  for (const one of references) await addConstraint(one)
  return done

  async function addConstraint({ table, name, definition }: Definition): Promise<void> {
    await client.query(`ALTER TABLE ${table} ADD CONSTRAINT ${name} ${definition}`)
  }
}

const definitions = `
  SELECT c.conrelid::regclass::text AS table, quote_ident(c.conname) AS name, pg_get_constraintdef(c.oid) AS definition, c.contype AS kind
  FROM pg_constraint c WHERE c.conrelid = ANY ($1::regclass[]) AND c.contype IN ('p', 'u', 'f')
  UNION ALL
  SELECT i.indrelid::regclass::text, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), NULL
  FROM pg_index i WHERE i.indrelid = ANY ($1::regclass[])
    AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid AND c.contype IN ('p', 'u', 'x'))
  ORDER BY 1, 2`
