import { readFileSync } from 'node:fs'

/** One instruction of a Dockerfile, its lines joined: `{ name: 'COPY', value: 'a b' }`. */
export interface Instruction {
  readonly name: string
  readonly value: string
}

/**
 * The stages of a Dockerfile, each from its FROM on. Knows comments, continued lines and nothing else: no here-documents and no
 * other escape character, and throws at what it cannot read.
 */
export function stagesOf(file: string): Instruction[][] {
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => !/^\s*(#|$)/.test(line))
  const stages: Instruction[][] = []
  for (const line of lines
    .join('\n')
    .replace(/\\\n\s*/g, '')
    .split('\n')) {
    const [, name, value] = line.match(/^([A-Z]+) (.+)$/) ?? []
    if (name === undefined || value === undefined || value.includes('<<'))
      throw new Error(`Not understood: ${line}`)
    if (name === 'FROM') stages.push([])
    stages.at(-1)!.push({ name, value })
  }
  return stages
}

/** The command of ENTRYPOINT, CMD or HEALTHCHECK, which has to be in the form of a list: no shell stands between. */
export function commandOf(stage: readonly Instruction[], name: string): string[] {
  const value = stage.findLast((instruction) => instruction.name === name)?.value ?? ''
  return JSON.parse(value.slice(value.indexOf('[')))
}
