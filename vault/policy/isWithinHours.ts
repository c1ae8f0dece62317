import type { HoursRule } from './policy.ts'

const minutesPerHour = 60

/** Whether a time is within the hours of a rule; both ends belong to them. @param nowMs milliseconds since 1970 */
export function isWithinHours({ fromMinute, toMinute, timeZone }: HoursRule, nowMs: number): boolean {
  const parts = new Intl.DateTimeFormat('en-GB', {
    timeZone,
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  }).formatToParts(nowMs)
  const part = (type: string): number => Number(parts.find((p) => p.type === type)!.value)
  const minute = part('hour') * minutesPerHour + part('minute')
  return fromMinute <= toMinute
    ? minute >= fromMinute && minute <= toMinute
    : minute >= fromMinute || minute <= toMinute
}
