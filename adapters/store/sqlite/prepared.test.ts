import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

function limitsIn(folder: string, limit: RegExp) {
  const cwd = join(import.meta.dirname, folder)
  const files = globSync('**/*.ts', { cwd, exclude: (name) => name.endsWith('.test.ts') })
  return files.flatMap((file) =>
    [...readFileSync(join(cwd, file), 'utf8').matchAll(limit)].map(([text, isExpression]) => ({
      file,
      text,
      isBare: isExpression === undefined,
    })),
  )
}

t.test(
  'no statement has a bare parameter as its limit, for which SQLite compiles it at each call',
  async (t) => {
    // A template's values are parameters; elsewhere `${…}` is text of the statement.
    const limits = [
      ...limitsIn('.', /\bLIMIT [?:]\w*( \+ 0)?/g),
      ...limitsIn('../repositories', /\bLIMIT \$\{[^}]*\}( \+ 0)?/g),
    ]
    t.ok(limits.length > 15, 'the statements are found')
    t.strictSame(
      limits.filter(({ isBare }) => isBare),
      [],
    )
  },
)
