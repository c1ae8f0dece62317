import { relative } from 'node:path'
import t from 'tap'
import { generatedFiles, staleFiles } from './writeGenerated.ts'

t.test('what the files show of the code is up to date (else: node cli/writeGenerated.ts)', async (t) => {
  const stale = await staleFiles()
  t.strictSame(
    stale.map(({ path }) => relative(process.cwd(), path)),
    [],
  )
})

t.test(
  'the schema for editors, the reference and the guides that show an example are among them',
  async (t) => {
    const files = await generatedFiles()
    const paths = files.map(({ path }) => path)
    t.ok(paths.some((path) => path.endsWith('config/tollgate.schema.json')))
    for (const name of [
      'docs/reference/api.md',
      'docs/reference/cli.md',
      'docs/reference/configuration.md',
      'docs/reference/errors.md',
      'docs/reference/events.md',
      'docs/reference/metrics.md',
      'docs/reference/vault-api.md',
      'docs/reference/vault-configuration.md',
      'docs/reference/vault-errors.md',
      'docs/how-to/buy-from-a-program.md',
    ])
      t.ok(
        paths.some((path) => path.endsWith(name)),
        name,
      )
  },
)
