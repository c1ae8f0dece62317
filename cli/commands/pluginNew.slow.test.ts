import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { isConfigError } from '../../core/config/check/problem.ts'
import { optionsList } from '../../core/config/docs.ts'
import { loadConfig } from '../../core/config/loadConfig.ts'
import { createPluginLoader } from '../../core/kernel/pluginLoader.ts'
import { createOutput } from '../output/createOutput.ts'
import { replaceGenerated } from '../writeGenerated.ts'
import { runPluginNew } from './pluginNew.ts'
import { templateOptions } from './pluginTemplate.ts'
import { runSchema } from './schema.ts'
import { vaultTemplateOptions } from './vaultPluginTemplate.ts'

const root = join(import.meta.dirname, '../..')

function silentOutput() {
  const chunks: string[] = []
  const stdout = { write: (text: string) => chunks.push(text) }
  return { output: createOutput({ stdout, stderr: stdout }), text: () => chunks.join('') }
}

const kinds = [{}, { vault: true }] as const

async function newPlugin(t: Test, flags: { vault?: boolean } = {}) {
  const name = 'my-plugin'
  const dir = t.testdir({})
  const { output, text } = silentOutput()
  await runPluginNew(name, flags, output, dir)
  return { dir, folder: join(dir, name), text }
}

/** Without the variables that the outer test runner sets for its children. */
const { NODE_OPTIONS: _, NODE_TEST_CONTEXT: __, ...env } = process.env

for (const flags of kinds)
  t.test(`a new plugin passes its own test where it is: ${JSON.stringify(flags)}`, (t) =>
    passesItsTest(t, flags),
  )

async function passesItsTest(t: Test, flags: { vault?: boolean }): Promise<void> {
  const elsewhere = mkdtempSync(join(tmpdir(), 'tollgate-plugin-'))
  t.teardown(() => rmSync(elsewhere, { recursive: true, force: true }))
  await runPluginNew('my-plugin', flags, silentOutput().output, elsewhere)
  const { folder } = await newPlugin(t, flags)
  // In a clone, and outside, where nothing is installed.
  for (const [where, runner] of [
    [join(elsewhere, 'my-plugin'), 'node:test'],
    [folder, 'tap'],
  ] as const) {
    const file = join(where, 'index.test.ts')
    t.match(readFileSync(file, 'utf8'), `from '${runner}'`)
    const run = spawnSync(process.execPath, ['--test', '--test-reporter=tap', file], {
      encoding: 'utf8',
      env,
    })
    t.equal(run.status, 0, run.stdout + run.stderr)
    t.match(run.stdout, /^# pass [1-9]\d*\n# fail 0$/m)
  }
}

t.test('a new plugin type-checks against the contract', async (t) => {
  // Inside the clone, where the contract is imported by its path.
  const folder = join(root, 'node_modules/.cache/tollgate-new-plugin')
  rmSync(folder, { recursive: true, force: true })
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const { output } = silentOutput()
  for (const [i, flags] of kinds.entries())
    await runPluginNew('my-plugin', { ...flags, dir: join(folder, String(i)) }, output, root)
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ extends: join(root, 'tsconfig.json'), include: ['**/*.ts'], exclude: [] }),
  )
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const run = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8', env })
  const own = run.stdout.split('\n').filter((line) => line.includes('tollgate-new-plugin'))
  t.strictSame(own, [])
})

t.test('a configuration can use it at once, and its options are checked', async (t) => {
  const { dir } = await newPlugin(t)
  const file = join(dir, 'tollgate.yaml')
  const load = (text: string) => {
    writeFileSync(
      file,
      `publicUrl: https://a.example\nplugins: [{ use: ./my-plugin/index.ts, with: ${text} }]\n`,
    )
    return loadConfig(file, { env: {}, plugins: createPluginLoader([], dir) })
  }
  const { plugins } = await load('{ paidOnly: true }')
  t.match(plugins, [{ plugin: { name: 'my-plugin' }, options: { text: 'hello', paidOnly: true } }])
  const error = await load('{ txet: hi }').catch((reason: unknown) => reason)
  const problems = isConfigError(error) ? error.problems : []
  t.match(problems.at(-1), { path: 'plugins[0].with.txet', hint: 'Did you mean text?' })
})

t.test('its README has the table of the options that it really has', async (t) => {
  for (const [flags, expected] of [
    [{}, templateOptions],
    [{ vault: true }, vaultTemplateOptions],
  ] as const) {
    const { folder } = await newPlugin(t, flags)
    const { options } = await import(`${join(folder, 'options.ts')}?${JSON.stringify(flags)}`)
    t.strictSame(options, expected)
    const readme = readFileSync(join(folder, 'README.md'), 'utf8')
    t.equal(replaceGenerated(readme, 'options', optionsList(options)), readme)
  }
})

t.test('the schema for editors describes it when the configuration is named', async (t) => {
  const { dir } = await newPlugin(t)
  const config = join(dir, 'tollgate.yaml')
  writeFileSync(config, 'plugins: [{ use: ./my-plugin/index.ts }, { use: rate-limit }]\n')
  const write = join(dir, 'schema.json')
  const { output } = silentOutput()
  await runSchema({ config, write }, output, () => t.fail('nothing is printed'))
  const { properties } = JSON.parse(readFileSync(write, 'utf8'))
  const uses = properties.plugins.items.allOf.map(
    (rule: { if: { properties: { use: { const: string } } } }) => rule.if.properties.use.const,
  )
  t.equal(uses.filter((use: string) => use === './my-plugin/index.ts').length, 1)
  t.equal(uses.filter((use: string) => use === 'rate-limit').length, 1)
})

t.test('nothing is overwritten, and a name that can not be used is refused', async (t) => {
  const { dir, folder } = await newPlugin(t)
  const before = readFileSync(join(folder, 'index.ts'), 'utf8')
  const { output } = silentOutput()
  await t.rejects(runPluginNew('my-plugin', {}, output, dir), { code: 'USAGE', message: /not empty/ })
  t.equal(readFileSync(join(folder, 'index.ts'), 'utf8'), before)
  for (const name of [
    '',
    '../evil',
    'A',
    'a b',
    'a--b',
    '-a',
    'a'.repeat(51),
    "a'b",
    'rate-limit',
    'telegram',
  ]) {
    await t.rejects(runPluginNew(name, {}, output, dir), { code: 'USAGE' }, JSON.stringify(name))
  }
  t.notOk(existsSync(join(dir, '../evil')))
  writeFileSync(join(dir, 'taken'), '')
  await t.rejects(runPluginNew('other', { dir: 'taken' }, output, dir), {
    code: 'USAGE',
    message: /is a file/,
  })
  mkdirSync(join(dir, 'empty'))
  await t.resolves(runPluginNew('other', { dir: 'empty' }, output, dir), 'an empty folder is fine')
})
