import { relative } from 'node:path'
import t from 'tap'
import { generatedFiles, staleFiles } from './writeGenerated.ts'

t.test('what the files show of the code is up to date (else: node cli/writeGenerated.ts)', (t) => {
  t.strictSame(
    staleFiles().map(({ path }) => relative(process.cwd(), path)),
    [],
  )
  t.end()
})

t.test('the schema for editors, the tables and the guides that show an example are among them', (t) => {
  const paths = generatedFiles().map(({ path }) => path)
  t.ok(paths.some((path) => path.endsWith('config/tollgate.schema.json')))
  for (const name of [
    'docs/configuration.md',
    'docs/errors.md',
    'docs/vault-errors.md',
    'docs/vault-plugins.md',
    'CONTRIBUTING.md',
  ])
    t.ok(
      paths.some((path) => path.endsWith(name)),
      name,
    )
  t.end()
})
