import { UsageError } from '../output/exitCodes.ts'

/** Whole numbers of a flag. @throws {UsageError} */
export function wholeNumber(name: string, text: string, least: number, most: number): number {
  const value = Number(text)
  if (/^\d{1,9}$/.test(text) && value >= least && value <= most) return value
  throw new UsageError(`Expected ${name} to be a whole number from ${least} to ${most}, got ${text}.`)
}
