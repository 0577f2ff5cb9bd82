#include "common/base/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/sentences.h"
#include "common/base/text.h"
#include "common/base/version.h"

namespace mgpu {
namespace {

using Values = std::vector<std::string>;

// --- values as text ------------------------------------------------------------------------------

// Removes the number that `text` starts with. CLI11 is less strict: it also accepts "0x10", " 1"
// and "010" (as eight).
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return number;
}

// A whole number and "ms", "s", "m" or "h".
std::optional<Duration> read_duration(std::string_view text) {
  const auto number = take_number(text);
  const auto unit = std::ranges::find(kDurationUnits, text, &DurationUnit::name);
  if (!number || *number < 0 || unit == kDurationUnits.end()) return std::nullopt;
  if (*number > std::numeric_limits<std::int64_t>::max() / unit->milliseconds) return std::nullopt;
  return Duration(*number * unit->milliseconds);
}

// "a, b or c"
std::string listed(const Values& choices) {
  const auto last = choices.end() - 1;
  return fmt::format("{}{}{}", fmt::join(choices.begin(), last, ", "),
                     choices.size() > 1 ? " or " : "", *last);
}

// "namespace" of "n,namespace"
std::string long_name(const std::string& name) {
  return name.substr(name.find(',') + 1);
}

// "--namespace", or "-n,--namespace"
std::string dashed(const std::string& name) {
  const std::size_t comma = name.find(',');
  return (comma == name.npos ? "" : "-" + name.substr(0, comma) + ",") + "--" + long_name(name);
}

// "MGPU_EXTENDER" and "bind-concurrency" give "MGPU_EXTENDER_BIND_CONCURRENCY".
std::string environment_name(const std::string& prefix, const std::string& flag) {
  if (prefix.empty()) return "";
  std::string name = prefix + "_" + long_name(flag);
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return name;
}

// --- help ----------------------------------------------------------------------------------------

// `text` in indented lines of at most 100 columns, broken at blanks. A longer word has a line of
// its own.
std::string wrapped(std::string_view text) {
  constexpr std::size_t kColumns = 94;
  std::string out;
  while (true) {
    std::size_t end = text.npos;
    if (text.size() > kColumns) end = std::min(text.rfind(' ', kColumns), text.size());
    if (end == text.size()) end = text.find(' ');
    out += fmt::format("      {}\n", text.substr(0, end));
    if (end == text.npos) return out;
    text.remove_prefix(end + 1);
  }
}

// The description of words that a command may go without.
constexpr const char* kOptional = "optional";
// The headings of flags in the help.
constexpr const char* kFlags = "Flags";
constexpr const char* kConnection = "Connection";

//   --bind-concurrency NUMBER  (1 to 1024; default 128; env MGPU_EXTENDER_BIND_CONCURRENCY)
//       Maximum number of binds that are in progress at the API server.
std::string flags_help(const CLI::App& app, const std::string& heading = kFlags) {
  std::string text;
  for (const CLI::Option* flag : app.get_options()) {
    // --help and --version are printed last.
    if (flag->get_option_text().empty() || flag->get_group() != heading) continue;
    const std::string kind = flag->get_type_name();
    const std::string name = flag->get_name(false, true);  // "-n,--namespace"
    text += fmt::format("  {}{}{}  ({}{})\n", name, kind.empty() ? "" : " ", kind,
                        flag->get_option_text(),
                        flag->get_envname().empty() ? "" : "; env " + flag->get_envname());
    text += wrapped(flag->get_description());
  }
  return text;
}

// The help of a program, or of a command.
std::string help_of(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  const std::string title = (parent ? parent->get_name() + " " : "") + app.get_name();
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  std::string words = commands.empty() ? "" : "COMMAND ";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = option->get_name(true);
    words += (option->get_description() == kOptional ? "[" + name + "]" : name) + " ";
  }
  std::string text =
      fmt::format("{0}: {1}\n\nUsage: {0} {2}[FLAGS]\n\n", title, app.get_description(), words);
  if (!commands.empty()) {
    text += "Commands:\n";
    for (const CLI::App* command : commands) {
      text += fmt::format("  {}\n{}", command->get_name(), wrapped(command->get_description()));
    }
    text += fmt::format("\n'{} COMMAND --help' shows a command's flags.\n\n", title);
  }
  if (!app.get_footer().empty()) text += "Examples:\n" + app.get_footer() + "\n";
  text += "Flags:\n" + flags_help(app) + (parent ? flags_help(*parent) : "") +
          "  -h,--help\n      Print this help and exit.\n  --version\n      Print the version and "
          "exit.\n";
  const std::string connection = flags_help(app, kConnection);
  return text + (connection.empty() ? "" : "\nConnection:\n" + connection);
}

// In reverse order, as CLI11 expects them. "--node=" becomes "--node" and "": CLI11 would read the
// next word as its value.
Values reversed_words(int argc, const char* const* argv) {
  Values words;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    const bool empty_value = word.starts_with("--") && word.find('=') == word.size() - 1;
    if (empty_value) word.pop_back();
    words.push_back(std::move(word));
    if (empty_value) words.emplace_back();
  }
  std::reverse(words.begin(), words.end());
  return words;
}

}  // namespace

Options::Options(const std::string& program, const std::string& description,
                 const std::string& environment_prefix)
    : app_(std::make_shared<CLI::App>(description, program)),
      environment_prefix_(environment_prefix) {
  // They take effect where they are read, so that an error elsewhere on the line does not hide
  // them.
  app_->set_help_flag();
  app_->add_flag_callback("-h,--help", [] { throw CLI::CallForHelp(); })->trigger_on_parse();
  app_->add_flag_callback("--version", [] { throw CLI::CallForVersion(); })->trigger_on_parse();
}

Options::Options(std::shared_ptr<CLI::App> app, const std::string& environment_prefix)
    : app_(std::move(app)), environment_prefix_(environment_prefix) {}

Options& Options::add_command(const std::string& name, const std::string& description,
                              const std::vector<std::string>& examples) {
  CLI::App* const app = app_->add_subcommand(name, description);
  std::string footer;
  for (const std::string& example : examples) footer += "  " + example + "\n";
  app->footer(footer);
  // A command with a callback of its own is processed only if it is on the line.
  app->fallthrough()->parse_complete_callback([] {});
  // A word after the command may have the name of another one.
  app_->require_subcommand(0, 1);
  commands_.emplace_back(new Options(app_->get_subcommand_ptr(app), environment_prefix_));
  return *commands_.back();
}

// `about` describes the values in the help.
CLI::Option& Options::add(const std::string& name, const std::string& help,
                          const std::string& about, std::function<bool(const Values&)> set) {
  MGPU_CHECK(app_->get_option_no_throw("--" + long_name(name)) == nullptr,
             "a flag was added twice");
  const std::size_t comma = name.find(',');
  flags_.push_back({.name = "--" + long_name(name),
                    .short_name = comma == name.npos ? "" : "-" + name.substr(0, comma),
                    .help = help});
  return *app_->add_option(dashed(name), std::move(set), help)
              ->option_text(about)
              ->group(kFlags)
              ->envname(environment_name(environment_prefix_, name))
              ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

// `read` makes an optional value of the text; `expected` describes valid text in errors.
template <class T, class Read>
CLI::Option& Options::add_value(const std::string& name, const std::string& help,
                                const std::string& about, T& target, const std::string& expected,
                                Read read) {
  const std::string variable = environment_name(environment_prefix_, name);
  return add(name, help, about, [=, &target](const Values& values) {
    auto value = read(values.back());
    if (!value) {
      // CLI11 does not report whether a value is from the environment.
      const char* const in_environment = variable.empty() ? nullptr : std::getenv(variable.c_str());
      const bool named = in_environment != nullptr && values.back() == in_environment;
      throw CLI::ValidationError(fmt::format("{} must be {}, found {}",
                                             named ? variable : "--" + long_name(name), expected,
                                             in_quotes(values.back())));
    }
    target = *std::move(value);
    return true;
  });
}

void Options::add_text(const std::string& name, const std::string& help, std::string& target) {
  const std::string about = "default " + (target.empty() ? "none" : target);
  const auto read = [](const std::string& text) { return std::optional(text); };
  add_value(name, help, about, target, "", read).type_name("TEXT");
}

void Options::add_choice(const std::string& name, const std::string& help, std::string& target,
                         const std::vector<std::string>& choices) {
  const std::string all = listed(choices);
  const auto read = [choices](const std::string& text) {
    const bool known = std::find(choices.begin(), choices.end(), text) != choices.end();
    return known ? std::optional(text) : std::nullopt;
  };
  add_value(name, help, fmt::format("{}; default {}", all, target), target, all, read)
      .type_name("CHOICE");
  flags_.back().choices = choices;
}

void Options::add_number(const std::string& name, const std::string& help, std::int64_t& target,
                         std::int64_t least, std::int64_t most) {
  const std::string range = fmt::format("{} to {}", least, most);
  const auto read = [least, most](std::string_view text) {
    const auto number = take_number(text);
    const bool good = number && text.empty() && *number >= least && *number <= most;
    return good ? number : std::nullopt;
  };
  add_value(name, help, fmt::format("{}; default {}", range, target), target,
            "a whole number from " + range, read)
      .type_name("NUMBER");
}

void Options::add_duration(const std::string& name, const std::string& help, Duration& target,
                           Duration least, Duration most) {
  const std::string range = fmt::format("{} to {}", duration_text(least), duration_text(most));
  const auto read = [least, most](std::string_view text) {
    const auto duration = read_duration(text);
    return duration && *duration >= least && *duration <= most ? duration : std::nullopt;
  };
  add_value(name, help, fmt::format("{}; default {}", range, duration_text(target)), target,
            "a time from " + range, read)
      .type_name("TIME");
}

void Options::add_flag(const std::string& name, const std::string& help, bool& target) {
  const auto read = [](const std::string& text) {
    return text == "true" || text == "false" ? std::optional(text == "true") : std::nullopt;
  };
  add_value(name, help, fmt::format("default {}", target), target, "true or false", read)
      .type_name("")
      ->expected(0);
  flags_.back().takes_value = false;
}

void Options::add_texts(const std::string& name, const std::string& help,
                        std::vector<std::string>& target) {
  const std::string defaults = fmt::format("{}", fmt::join(target, ","));
  const std::string about = "may be repeated; default " + (defaults.empty() ? "none" : defaults);
  add(name, help, about,
      [&target](const Values& values) {
        target = values;
        return true;
      })
      .type_name("TEXT")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void Options::add_removed(const std::string& name, const std::string& instead) {
  const std::string sentence = fmt::format("--{} was removed: {}", name, instead);
  app_->add_option(
          "--" + name, [sentence](const Values&) -> bool { throw CLI::ValidationError(sentence); },
          "")
      ->expected(0, 1)
      ->envname(environment_name(environment_prefix_, name));
}

void Options::add_words(const std::string& name, std::vector<std::string>& target,
                        std::size_t least, std::size_t most) {
  words_ = name;
  app_->add_option(
          name,
          [&target](const Values& values) {
            target = values;
            return true;
          },
          least == 0 ? kOptional : "")
      ->expected(-1)
      ->allow_extra_args()  // also behind a flag
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  check([name, least, most, &target]() -> Result<void> {
    if (target.size() < least) return error(name + " is missing");
    if (target.size() > most) return error("unexpected argument " + in_quotes(target[most]));
    return {};
  });
}

std::vector<std::pair<std::string, std::string>> Options::commands() const {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& each : commands_)
    all.emplace_back(each->app_->get_name(), each->app_->get_description());
  return all;
}

std::vector<FlagName> Options::flags_of(const std::string& command) const {
  if (command.empty()) return flags_;
  for (const auto& each : commands_) {
    if (each->app_->get_name() == command) return each->flags_;
  }
  return {};
}

std::string Options::words_of(const std::string& command) const {
  if (command.empty()) return words_;
  for (const auto& each : commands_) {
    if (each->app_->get_name() == command) return each->words_;
  }
  return {};
}

void Options::check(std::function<Result<void>()> check) {
  checks_.push_back(std::move(check));
}

void Options::show_as_connection(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    CLI::Option* const flag = app_->get_option_no_throw("--" + name);
    if (flag != nullptr) flag->group(kConnection);
  }
}

std::string Options::nearest_to(const std::string& word) const {
  Values known;
  for (const auto& command : commands_) {
    if (app_->get_subcommands().empty()) known.push_back(command->app_->get_name());
    if (!command->app_->parsed()) continue;
    for (const FlagName& flag : command->flags_) known.push_back(flag.name);
  }
  for (const FlagName& flag : flags_) known.push_back(flag.name);
  const std::string nearest = nearest_word(word.substr(0, word.find('=')), known);
  return nearest.empty() ? "" : "; did you mean " + in_quotes(nearest) + "?";
}

ParsedOptions Options::parse(int argc, const char* const* argv) {
  const auto refused = [this](const std::string& sentence) {
    return ParsedOptions{false, 2, app_->get_name() + ": " + sentence + "; see --help\n"};
  };
  try {
    Values words = reversed_words(argc, argv);
    if (!commands_.empty() && !words.empty() && words.back() == "help") {
      words.pop_back();
      // Behind the command, so that an unknown one is named.
      const auto is_last = [&](const auto& one) { return one.first == words.back(); };
      if (words.empty() || std::ranges::any_of(commands(), is_last))
        words.insert(words.begin(), "--help");
    }
    app_->parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    const auto named = app_->get_subcommands();
    return {false, 0, help_of(named.empty() ? *app_ : *named.front())};
  } catch (const CLI::CallForVersion&) {
    return {false, 0, version_text() + "\n"};
  } catch (const CLI::ValidationError& bad) {
    return refused(bad.what());
  } catch (const CLI::ExtrasError&) {
    const Values extras = app_->remaining(true);
    const std::string first = extras.empty() ? "" : extras.front();
    const bool names_command = !commands_.empty() && app_->get_subcommands().empty();
    const bool is_flag = first.starts_with('-');
    return refused((is_flag         ? "unknown flag "
                    : names_command ? "unknown command "
                                    : "unexpected argument ") +
                   in_quotes(first) + (is_flag || names_command ? nearest_to(first) : ""));
  } catch (const CLI::ArgumentMismatch& mismatch) {
    // "--port: 1 required NUMBER missing"
    const std::string text = mismatch.what();
    return refused(text.substr(0, text.find(':')) + " needs a value");
  } catch (const CLI::Error& failure) {
    return refused(in_quotes(failure.what()));
  }
  auto checks = checks_;
  command_.clear();
  Values names;
  for (const auto& each : commands_) {
    names.push_back(each->app_->get_name());
    if (!each->app_->parsed() || !command_.empty()) continue;
    command_ = names.back();
    checks.insert(checks.begin(), each->checks_.begin(), each->checks_.end());
  }
  if (!names.empty() && command_.empty()) {
    return refused("a command is needed: " + listed(names));
  }
  for (const auto& check : checks) {
    if (auto checked = check(); !checked) return refused(checked.error().message);
  }
  return {.run = true};
}

std::string version_text() {
#ifdef __clang__
  constexpr std::string_view kCompiler = "clang";
#else
  constexpr std::string_view kCompiler = "gcc";
#endif
  return fmt::format("mgpu {} (commit {}, {} {})", MGPU_VERSION, kBuildCommit, kCompiler,
                     __VERSION__);
}

}  // namespace mgpu
