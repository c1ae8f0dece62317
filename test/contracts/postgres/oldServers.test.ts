import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const folders = ['adapters/store/postgres', 'adapters/store/sql']

/** What came after PostgreSQL 13, by the release notes of each version: the server of the tests is newer and would take it. */
const newer: Readonly<Record<14 | 15 | 16 | 17 | 18, RegExp>> = {
  14: /\b(string_to_table|date_bin|bit_count|bit_xor|trim_array|unistr|multirange\w*|range_agg|SEARCH (BREADTH|DEPTH) FIRST|CYCLE \w+ SET|GROUP BY DISTINCT|CREATE OR REPLACE TRIGGER|BEGIN ATOMIC|DETACH PARTITION \w+ CONCURRENTLY|SET COMPRESSION|idle_session_timeout|pg_get_catalog_foreign_keys)\b/i,
  15: /\b(MERGE INTO|NULLS NOT DISTINCT|regexp_(count|instr|like|substr)|security_invoker|SET ACCESS METHOD|range_intersect_agg)\b/i,
  16: /\b(any_value|array_(sample|shuffle)|random_normal|JSON_(ARRAY|OBJECT|ARRAYAGG|OBJECTAGG)|IS JSON|system_user|GENERIC_PLAN|pg_input_is_valid|date_add|date_subtract|DEFAULT FOR COPY)\b/i,
  17: /\b(JSON_(TABLE|EXISTS|QUERY|VALUE|SCALAR|SERIALIZE)|transaction_timeout|uuid_extract_\w+|to_(bin|oct)|xmltext|ON_ERROR|MERGE \w+ RETURNING|merge_action|event_trigger_ddl)\b/i,
  18: /\b(uuidv[47]|casefold|crc32c?|array_(sort|reverse)|WITHOUT OVERLAPS|ENFORCED|GENERATED ALWAYS AS \([^)]*\) VIRTUAL|RETURNING (WITH|old\.|new\.))\b/i,
}

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((one) => one.isFile() && one.name.endsWith('.ts') && !one.name.endsWith('.test.ts'))
    .map((one) => join(one.parentPath, one.name))

/** Comments of SQL and of the program say what they like. */
const withoutComments = (text: string) => text.replaceAll(/^\s*(--|\*|\/\/|\/\*\*).*$/gm, '')

const foundIn = (text: string): string[] =>
  Object.entries(newer).flatMap(([version, words]) => {
    const found = words.exec(withoutComments(text))
    return found === null ? [] : [`${found[0]} of version ${version}`]
  })

t.test('no statement for PostgreSQL has words that version 13 does not know', async (t) => {
  const root = join(import.meta.dirname, '../../..')
  const files = folders.flatMap((folder) => filesIn(join(root, folder)))
  t.ok(files.length > 30)
  for (const file of files) t.strictSame(foundIn(readFileSync(file, 'utf8')), [], file)
  t.strictSame(foundIn('SELECT * FROM string_to_table(a, b)'), ['string_to_table of version 14'])
  t.strictSame(foundIn('CREATE UNIQUE INDEX i ON t (a) NULLS NOT DISTINCT'), [
    'NULLS NOT DISTINCT of version 15',
  ])
  t.strictSame(foundIn('SELECT any_value(a), uuidv7()'), ['any_value of version 16', 'uuidv7 of version 18'])
  t.strictSame(foundIn('SELECT gen_random_uuid(), pg_current_xact_id(), normalize(a, NFKD)'), [])
})
