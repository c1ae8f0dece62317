// `npm run check -- rate-limit`: lint, types and tests of one part. A part is a plugin's name, a folder or a file.
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '..')
const bin = (name: string) => join(root, 'node_modules/.bin', name)

const part = process.argv[2]
const folder = part === undefined ? undefined : folderOf(part)
if (folder === undefined) {
  console.error(
    `Expected the name of a plugin, a folder or a file, got ${part ?? 'nothing'}.\n` +
      'Examples: npm run check -- rate-limit, npm run check -- core/config, npm run check -- cli/pay',
  )
  process.exit(2)
}

const tests = testsOf(folder)
const failed = [
  step('lint', bin('biome'), ['check', '--error-on-warnings', folder]),
  types(folder),
  tests.length > 0 && step('tests', process.execPath, [join(root, 'test/run.ts'), ...tests]),
]
if (tests.length === 0) console.log(`tests: none in ${folder}, and none elsewhere imports from it`)
process.exitCode = failed.some(Boolean) ? 1 : 0

/** `rate-limit` → `plugins/rate-limit`; relative to the root. Undefined when there is nothing. */
function folderOf(name: string): string | undefined {
  const found = [join('plugins', name), name].find((path) => existsSync(join(root, path)))
  return found === undefined ? undefined : relative(root, resolve(root, found))
}

/** The tests in a folder, and those elsewhere that import one of its modules; the slow ones left out. */
function testsOf(part: string): string[] {
  const all = globSync('**/*.test.ts', {
    cwd: root,
    exclude: [
      ...['node_modules', 'dist', '.tap', 'bench', 'test/slow', 'test/legacy', 'test/architecture/fixture'],
      '**/*.slow.test.ts',
    ],
  })
  return all.filter((test) => isIn(part, test) || importsFrom(part, test))
}

function isIn(part: string, file: string): boolean {
  return part === '' || file === part || file.startsWith(`${part}/`)
}

function importsFrom(part: string, test: string): boolean {
  const text = readFileSync(join(root, test), 'utf8')
  const imported = [...text.matchAll(/from '(\.[^']+)'/g)].map(([, path]) => join(dirname(test), path!))
  return imported.some((file) => isIn(part, file))
}

/** The compiler reads the whole tree, because a change here shows there; only this part's messages count. */
function types(part: string): boolean {
  console.log(`types: ${part}`)
  const { stdout } = spawnSync(bin('tsgo'), ['-p', '.', '--pretty', 'false'], { cwd: root, encoding: 'utf8' })
  const lines = stdout.split('\n')
  const own = lines.filter((line) => isIn(part, line.split('(')[0]!))
  const elsewhere = lines.filter((line) => line.includes(': error TS')).length - own.length
  if (own.length > 0) console.log(own.join('\n'))
  if (elsewhere > 0) console.log(`types: ${elsewhere} errors elsewhere; npm run types shows them`)
  return own.length > 0
}

/** @returns whether it failed */
function step(title: string, program: string, args: readonly string[]): boolean {
  console.log(`${title}: ${args.length > 4 ? `${args.length} files` : args.join(' ')}`)
  return spawnSync(program, args, { cwd: root, stdio: 'inherit' }).status !== 0
}
