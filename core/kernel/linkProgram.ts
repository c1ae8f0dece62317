import { isDeepStrictEqual } from 'node:util'
import { redact } from '../config/redact.ts'
import type { ServedLink } from '../domain/link.ts'
import { compile } from './compile.ts'
import type { Generation } from './generation.ts'
import type { ReadyPlugin } from './readyPlugin.ts'
import { Shapes } from './shapes.ts'
import type { When } from './when.ts'

/** What runs for a link, as `tollgate check` and the operator's page tell it. */
export interface LinkProgram {
  readonly steps: readonly { readonly phase: string; readonly plugin: string }[]
  /** After the answer: plugins of phase `deliver`, then those of `log`. */
  readonly deliver: readonly string[]
  readonly log: readonly string[]
  /** Why it does not hold, in words; then every call is refused. */
  readonly problems: readonly string[]
  /** A paid link of a gateway without plugins for payments: every call is refused. */
  readonly takesNoPayment: boolean
}

/** One entry of the configuration's plugin list that does something for a link. */
export interface ProgramEntry {
  readonly plugin: string
  readonly phases: readonly string[]
  /** Which links it runs for; undefined where for all. */
  readonly when: When | undefined
  /** By name; texts that no schema describes, and secrets, are hidden. */
  readonly settings: readonly {
    readonly name: string
    readonly value: unknown
    /** The same as where the configuration leaves it out. */
    readonly isDefault: boolean
  }[]
}

/** Makes a link's program and throws it away again. */
export function linkProgramOf(generation: Generation, link: ServedLink): LinkProgram {
  const { program, problems, takesNoPayment } = generation.examine(link)
  const { steps, postAnswer } = program?.shape ?? { steps: [], postAnswer: [] }
  program?.dispose()
  const after = (phase: string) => postAnswer.filter((s) => s.phase === phase).map((s) => s.plugin)
  return {
    steps: steps.map(({ phase, plugin }) => ({ phase, plugin })),
    ...{ deliver: after('deliver'), log: after('log'), problems, takesNoPayment },
  }
}

/** The entries of the configuration that make a link's program, in their order. */
export function programEntriesOf(generation: Generation, link: ServedLink): ProgramEntry[] {
  return generation.plugins.flatMap((ready) => {
    const phases = phasesOf(ready, link)
    if (phases.length === 0) return []
    const { plugin, options, when } = ready
    return [{ plugin: plugin.name, phases, when, settings: settingsOf(plugin.options, options) }]
  })
}

function phasesOf(ready: ReadyPlugin, link: ServedLink): string[] {
  try {
    const program = compile(link, [ready], new Shapes([ready], () => undefined))
    program.dispose()
    const { steps, postAnswer } = program.shape
    return [...steps, ...postAnswer].map(({ phase }) => phase)
  } catch {
    // It can't say what it does: the program's problems say so.
    return []
  }
}

interface Schema {
  readonly properties?: Readonly<Record<string, { readonly default?: unknown }>>
}

function settingsOf(schema: Schema, options: unknown): ProgramEntry['settings'] {
  const shown = redact(options ?? {}, schema as Parameters<typeof redact>[1]) as Record<string, unknown>
  return Object.entries(shown).map(([name, value]) => ({
    ...{ name, value },
    isDefault: isDeepStrictEqual(
      (options as Record<string, unknown>)[name],
      schema.properties?.[name]?.default,
    ),
  }))
}
