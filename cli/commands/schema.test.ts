import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'

const here = (name: string) => pathToFileURL(join(import.meta.dirname, name)).href

/** Runs both commands as the program does, in a separate process. */
function tollgate(cwd: string, ...args: string[]) {
  const script = `
    import { Command } from ${JSON.stringify(import.meta.resolve('commander'))}
    import { registerPluginNew } from ${JSON.stringify(here('pluginNew.ts'))}
    import { registerSchema } from ${JSON.stringify(here('schema.ts'))}
    const program = new Command('tollgate')
    registerPluginNew(program)
    registerSchema(program)
    await program.parseAsync(${JSON.stringify(['node', 'tollgate', ...args])})
  `
  return spawnSync(process.execPath, ['--input-type=module', '--eval', script], { cwd, encoding: 'utf8' })
}

t.test('the schema is printed alone, so that it can be piped into a file', async (t) => {
  const { status, stdout, stderr } = tollgate(t.testdir({}), 'schema')
  t.equal(status, 0, stderr)
  t.match(JSON.parse(stdout), { title: 'Tollgate configuration' })
  const vault = tollgate(t.testdir({}), 'schema', '--vault')
  t.match(JSON.parse(vault.stdout), { title: 'Tollgate vault configuration', properties: { plugins: {} } })
})

t.test('what can not be done is said on stderr, with an exit code', async (t) => {
  const dir = t.testdir({
    'broken.yaml': 'a: [',
    'unknown.yaml': 'plugins: [{ use: no-such-plugin }, {}, 1]\n',
  })
  for (const [args, code, words] of [
    [['schema', '--config', 'broken.yaml'], 2, /Run tollgate check to see why/],
    [['schema', '--config', 'unknown.yaml'], 1, /no-such-plugin/],
    [['schema', '--config', 'missing.yaml'], 1, /missing.yaml/],
    [['plugin', 'new', 'Not A Name'], 2, /lower-case letters/],
  ] as const) {
    const { status, stderr, stdout } = tollgate(dir, ...args)
    t.equal(status, code, args.join(' '))
    t.match(stderr, words)
    t.match(JSON.parse(stdout).error, { message: words }, 'and as an object for a program')
  }
})

t.test('a plugin is written to the folder that the command runs in', async (t) => {
  const dir = t.testdir({})
  const { status, stdout, stderr } = tollgate(dir, 'plugin', 'new', 'my-plugin')
  t.equal(status, 0, stderr)
  t.match(JSON.parse(stdout), { name: 'my-plugin', folder: join(dir, 'my-plugin') })
})
